-- The log. The envelope is what the hash covers; a column of it never changes, and no row goes.
CREATE TABLE events (
	seq         INTEGER PRIMARY KEY,
	at_us       INTEGER NOT NULL,
	kind        TEXT    NOT NULL,
	principal   TEXT    NOT NULL,
	client      TEXT    NOT NULL,
	channel     TEXT    NOT NULL,
	refs        TEXT    NOT NULL, -- JSON of event.Refs
	summary     TEXT    NOT NULL,
	body_sha256 TEXT    NOT NULL, -- '' without a body
	prev        TEXT    NOT NULL,
	hash        TEXT    NOT NULL,
	area        TEXT    NOT NULL GENERATED ALWAYS AS (substr(kind, 1, instr(kind, '.') - 1)) VIRTUAL
) STRICT;

CREATE INDEX events_by_area ON events (area, seq);

CREATE TRIGGER events_never_change BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'the log only grows'); END;

CREATE TRIGGER events_never_go BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'the log only grows'); END;

-- What an event is about, to look it up. The truth is events.refs.
CREATE TABLE event_refs (
	name  TEXT    NOT NULL,
	value TEXT    NOT NULL,
	seq   INTEGER NOT NULL,
	PRIMARY KEY (name, value, seq)
) STRICT, WITHOUT ROWID;

-- Retention removes bodies, so they lie apart.
CREATE TABLE event_bodies (
	seq  INTEGER PRIMARY KEY,
	body BLOB NOT NULL
) STRICT;

-- body is the JSON of approval.Approval; the columns beside it are copies to select by.
CREATE TABLE approvals (
	id    TEXT PRIMARY KEY,
	state TEXT NOT NULL,
	about TEXT NOT NULL,
	body  BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX approvals_by_state ON approvals (state, id);
CREATE INDEX approvals_by_about ON approvals (about, id);

-- body is the JSON of converge.Plan; seq is the order of making.
CREATE TABLE plans (
	seq   INTEGER PRIMARY KEY AUTOINCREMENT,
	id    TEXT NOT NULL UNIQUE,
	state TEXT NOT NULL,
	agent TEXT NOT NULL,
	body  BLOB NOT NULL
) STRICT;

CREATE INDEX plans_by_state ON plans (state, seq);
CREATE INDEX plans_by_agent ON plans (agent, seq);

-- body is the JSON of converge.Receipt.
CREATE TABLE receipts (
	seq   INTEGER PRIMARY KEY AUTOINCREMENT,
	id    TEXT NOT NULL UNIQUE,
	state TEXT NOT NULL,
	plan  TEXT NOT NULL,
	body  BLOB NOT NULL
) STRICT;

CREATE INDEX receipts_by_state ON receipts (state, seq);
CREATE INDEX receipts_by_plan ON receipts (plan, seq);

-- The real paths of the files that a receipt wrote.
CREATE TABLE receipt_paths (
	path TEXT    NOT NULL,
	seq  INTEGER NOT NULL REFERENCES receipts (seq) ON DELETE CASCADE,
	PRIMARY KEY (path, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX receipt_paths_by_receipt ON receipt_paths (seq);

-- body is the JSON of converge.AgentRecord.
CREATE TABLE agents (
	agent TEXT PRIMARY KEY,
	body  BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- body is the JSON of converge.FileRecord.
CREATE TABLE observed_files (
	agent TEXT NOT NULL,
	path  TEXT NOT NULL,
	body  BLOB NOT NULL,
	PRIMARY KEY (agent, path)
) STRICT, WITHOUT ROWID;
