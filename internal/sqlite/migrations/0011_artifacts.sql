-- Registered artifacts; body is the JSON of session.Artifact. Their bytes are rows of results.
CREATE TABLE artifacts (
	id      TEXT PRIMARY KEY,
	project TEXT NOT NULL,
	session TEXT NOT NULL,
	body    BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX artifacts_by_session ON artifacts (session, id);
CREATE INDEX artifacts_by_project ON artifacts (project, id);

CREATE TRIGGER artifacts_stay BEFORE UPDATE ON artifacts
BEGIN SELECT RAISE(ABORT, 'a registered artifact never changes'); END;
