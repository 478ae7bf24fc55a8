-- Servers that were seen and are not in the catalog; body is the JSON of catalog.Candidate.
CREATE TABLE candidates (
	id    TEXT PRIMARY KEY,
	state TEXT NOT NULL,
	body  BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX candidates_by_state ON candidates (state, id);

-- A person's word that an entry of a file is a server; body is the JSON of catalog.Link.
CREATE TABLE links (
	digest    TEXT PRIMARY KEY,
	server_id TEXT NOT NULL REFERENCES servers (id) ON DELETE CASCADE,
	body      BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX links_by_server ON links (server_id);

-- The tools that a person has agreed to; body is the JSON of catalog.Pins.
CREATE TABLE pins (
	server_id TEXT PRIMARY KEY REFERENCES servers (id) ON DELETE CASCADE,
	body      BLOB NOT NULL
) STRICT, WITHOUT ROWID;
