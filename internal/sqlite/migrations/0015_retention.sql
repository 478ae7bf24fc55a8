-- What an operation that has ended holds beside its outcome is let go at some time. The column is a copy to select by.
ALTER TABLE operations ADD COLUMN shrunk INTEGER NOT NULL DEFAULT 0;
CREATE INDEX operations_whole ON operations (seq) WHERE state IN ('succeeded', 'failed') AND NOT shrunk;

CREATE INDEX results_by_age ON results (made_us, principal, ref);

-- What retention remembers; body is the JSON of retention.State.
CREATE TABLE retention (
	id   INTEGER PRIMARY KEY CHECK (id = 1),
	body BLOB NOT NULL
) STRICT;
