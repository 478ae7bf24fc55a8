-- Registered projects; body is the JSON of session.Project. An unregistered one keeps its row and frees its name.
CREATE TABLE projects (
	id    TEXT PRIMARY KEY,
	name  TEXT NOT NULL,
	state TEXT NOT NULL,
	body  BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX projects_by_name ON projects (name) WHERE state <> 'removed';

-- Remote sessions; body is the JSON of session.Session. use_seq is the order of the last use.
CREATE TABLE remote_sessions (
	id        TEXT    PRIMARY KEY,
	use_seq   INTEGER NOT NULL UNIQUE,
	principal TEXT    NOT NULL,
	project   TEXT    NOT NULL,
	state     TEXT    NOT NULL,
	used_us   INTEGER NOT NULL,
	body      BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER remote_sessions_stay_closed BEFORE UPDATE ON remote_sessions WHEN OLD.state = 'closed' AND NEW.state <> 'closed'
BEGIN SELECT RAISE(ABORT, 'a closed session stays closed'); END;

-- Roles on sessions and projects of others; body is the JSON of session.Grant.
CREATE TABLE grants (
	principal TEXT NOT NULL,
	about     TEXT NOT NULL,
	body      BLOB NOT NULL,
	PRIMARY KEY (principal, about)
) STRICT, WITHOUT ROWID;

CREATE INDEX grants_by_about ON grants (about, principal);

-- Hand-overs; body is the JSON of session.Handoff, which never holds a token.
CREATE TABLE handoffs (
	id   TEXT    PRIMARY KEY,
	used INTEGER NOT NULL,
	body BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER handoffs_are_used_once BEFORE UPDATE ON handoffs WHEN OLD.used = 1
BEGIN SELECT RAISE(ABORT, 'a hand-over is used once'); END;

-- Work plans; body is the JSON of session.WorkPlan.
CREATE TABLE work_plans (
	id      TEXT    PRIMARY KEY,
	session TEXT    NOT NULL,
	state   TEXT    NOT NULL,
	version INTEGER NOT NULL,
	body    BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX work_plans_by_session ON work_plans (session, id);

CREATE TRIGGER work_plans_stay_final BEFORE UPDATE ON work_plans WHEN OLD.state <> 'open'
BEGIN SELECT RAISE(ABORT, 'a final work plan never changes'); END;
