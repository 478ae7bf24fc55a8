-- Access over OAuth: body is the JSON of auth.Delegation and of auth.DelegationToken, which hold digests of values and never values.
CREATE TABLE delegations (
	id   TEXT PRIMARY KEY,
	body BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE delegation_tokens (
	digest  TEXT PRIMARY KEY,
	expires INTEGER NOT NULL, -- nanoseconds since 1970, UTC
	body    BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX delegation_tokens_by_expiry ON delegation_tokens (expires);

-- How other machines reach this one: at most one row, the JSON of auth.Remote.
CREATE TABLE remote (
	one  INTEGER PRIMARY KEY CHECK (one = 1),
	body BLOB NOT NULL
) STRICT;
