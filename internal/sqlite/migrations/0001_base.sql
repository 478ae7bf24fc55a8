-- The catalog: one row is one entry; entry is the JSON of catalog.Server without its times.
CREATE TABLE servers (
	id         TEXT    PRIMARY KEY,
	name       TEXT    NOT NULL UNIQUE,
	entry      BLOB    NOT NULL,
	created_us INTEGER NOT NULL,
	updated_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One name space for names and aliases.
CREATE TABLE server_names (
	name      TEXT PRIMARY KEY,
	server_id TEXT NOT NULL REFERENCES servers (id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX server_names_by_server ON server_names (server_id);

-- Legacy transport sessions. AUTOINCREMENT: a seq is never used twice, so a page never skips or repeats a session.
CREATE TABLE sessions (
	seq        INTEGER PRIMARY KEY AUTOINCREMENT,
	id         TEXT    NOT NULL UNIQUE,
	server_id  TEXT    NOT NULL REFERENCES servers (id) ON DELETE CASCADE,
	principal  TEXT    NOT NULL,
	agent      TEXT    NOT NULL,
	version    TEXT    NOT NULL,
	lane       TEXT    NOT NULL,
	params     BLOB    NOT NULL,
	result     BLOB    NOT NULL,
	created_us INTEGER NOT NULL
) STRICT;

CREATE INDEX sessions_by_server ON sessions (server_id, seq);

CREATE TABLE meta (
	name  TEXT    PRIMARY KEY,
	value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO meta (name, value) VALUES ('epoch', 0);
