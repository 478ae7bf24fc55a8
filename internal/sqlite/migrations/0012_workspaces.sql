-- Workspaces and their integrations. body is the JSON of workspace.Workspace and workspace.Integration; the columns beside it
-- are copies to select by.
CREATE TABLE workspaces (
	seq       INTEGER PRIMARY KEY AUTOINCREMENT,
	id        TEXT NOT NULL UNIQUE,
	principal TEXT NOT NULL,
	project   TEXT NOT NULL,
	state     TEXT NOT NULL,
	rev       INTEGER NOT NULL,
	body      BLOB NOT NULL
) STRICT;

CREATE TRIGGER workspaces_end_once BEFORE UPDATE ON workspaces WHEN old.state = 'retired' AND new.state <> 'retired'
BEGIN SELECT RAISE(ABORT, 'a workspace that is retired stays so'); END;

CREATE TABLE integrations (
	seq     INTEGER PRIMARY KEY AUTOINCREMENT,
	id      TEXT NOT NULL UNIQUE,
	project TEXT NOT NULL,
	body    BLOB NOT NULL
) STRICT;
