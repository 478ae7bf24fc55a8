-- What servers offered when they were last asked; body is the JSON of catalog.Offer.
CREATE TABLE offers (
	server_id TEXT PRIMARY KEY REFERENCES servers (id) ON DELETE CASCADE,
	body      BLOB NOT NULL
) STRICT, WITHOUT ROWID;
