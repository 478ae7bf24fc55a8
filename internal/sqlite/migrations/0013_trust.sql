-- What a person agreed to of the repository of a project; body is the JSON of session.Trust.
CREATE TABLE trusts (
	project TEXT PRIMARY KEY,
	body    BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Servers that repositories name are in no catalog, and offer tools, too.
CREATE TABLE all_offers (
	server_id TEXT PRIMARY KEY,
	body      BLOB NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO all_offers (server_id, body) SELECT server_id, body FROM offers;
DROP TABLE offers;
ALTER TABLE all_offers RENAME TO offers;

CREATE TRIGGER offers_leave_with_their_server AFTER DELETE ON servers
BEGIN DELETE FROM offers WHERE server_id = OLD.id; END;
