-- The ledger of the tools at /mcp. body is the JSON of operation.Operation; the columns beside it are copies to select by.
CREATE TABLE operations (
	seq       INTEGER PRIMARY KEY AUTOINCREMENT,
	namespace TEXT NOT NULL,
	id        TEXT NOT NULL,
	session   TEXT NOT NULL,
	print     TEXT NOT NULL,
	state     TEXT NOT NULL,
	body      BLOB NOT NULL,
	UNIQUE (namespace, id)
) STRICT;

CREATE INDEX operations_by_print ON operations (print, seq);
CREATE INDEX operations_open ON operations (seq) WHERE state NOT IN ('succeeded', 'failed');

CREATE TRIGGER operations_end_once BEFORE UPDATE ON operations WHEN old.state IN ('succeeded', 'failed') AND (new.state <> old.state OR new.print <> old.print)
BEGIN SELECT RAISE(ABORT, 'what has ended does not change'); END;

-- Answers that were too large to be sent whole.
CREATE TABLE results (
	principal TEXT    NOT NULL,
	ref       TEXT    NOT NULL,
	media     TEXT    NOT NULL,
	sha256    TEXT    NOT NULL,
	made_us   INTEGER NOT NULL,
	bytes     BLOB    NOT NULL,
	PRIMARY KEY (principal, ref)
) STRICT;
