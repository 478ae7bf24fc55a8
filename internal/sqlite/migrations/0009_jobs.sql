-- Jobs of the tools at /mcp. body is the JSON of operation.Job; the columns beside it are copies to select by.
CREATE TABLE jobs (
	seq       INTEGER PRIMARY KEY AUTOINCREMENT,
	id        TEXT NOT NULL UNIQUE,
	principal TEXT NOT NULL,
	operation TEXT NOT NULL,
	session   TEXT NOT NULL,
	project   TEXT NOT NULL,
	state     TEXT NOT NULL,
	body      BLOB NOT NULL
) STRICT;

CREATE INDEX jobs_by_operation ON jobs (principal, operation, seq);
CREATE INDEX jobs_live ON jobs (seq) WHERE state IN ('reserved', 'starting', 'running');

CREATE TRIGGER jobs_end_once BEFORE UPDATE ON jobs WHEN old.state NOT IN ('reserved', 'starting', 'running') AND new.state <> old.state
BEGIN SELECT RAISE(ABORT, 'a job that has ended does not change'); END;
