-- Tokens of agents: body is the JSON of auth.Token, which holds the digest of a value and never the value.
CREATE TABLE tokens (
	id     TEXT PRIMARY KEY,
	agent  TEXT NOT NULL,
	digest TEXT NOT NULL UNIQUE,
	body   BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tokens_by_agent ON tokens (agent, id);
