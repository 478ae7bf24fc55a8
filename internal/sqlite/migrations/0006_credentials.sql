-- Names for values that are kept elsewhere; body is the JSON of catalog.Credential, which never holds a value.
CREATE TABLE credentials (
	name TEXT PRIMARY KEY,
	body BLOB NOT NULL
) STRICT, WITHOUT ROWID;
