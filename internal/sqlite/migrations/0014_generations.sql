-- Generations and their audits. body is the JSON of workspace.Generation and workspace.Audit; the columns beside it are copies
-- to select by. build is NULL before a candidate is sealed.
CREATE TABLE generations (
	seq       INTEGER PRIMARY KEY AUTOINCREMENT,
	candidate TEXT NOT NULL UNIQUE,
	build     TEXT UNIQUE,
	principal TEXT NOT NULL,
	project   TEXT NOT NULL,
	workspace TEXT NOT NULL,
	producer  TEXT NOT NULL,
	state     TEXT NOT NULL,
	body      BLOB NOT NULL
) STRICT;

CREATE TRIGGER generations_end_once BEFORE UPDATE ON generations WHEN old.state IN ('rejected', 'released') AND new.state <> old.state
BEGIN SELECT RAISE(ABORT, 'a generation that is rejected or released stays so'); END;

CREATE TABLE audits (
	seq   INTEGER PRIMARY KEY AUTOINCREMENT,
	id    TEXT NOT NULL UNIQUE,
	build TEXT NOT NULL,
	state TEXT NOT NULL,
	body  BLOB NOT NULL
) STRICT;

CREATE INDEX audits_by_build ON audits (build, seq);

CREATE TRIGGER audits_end_once BEFORE UPDATE ON audits WHEN old.state IN ('post_verified', 'invalid', 'lost')
BEGIN SELECT RAISE(ABORT, 'an audit that has ended does not change'); END;
