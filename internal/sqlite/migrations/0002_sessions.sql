-- Transport sessions outlive the daemon: the whole initialize is kept, and what the session has set up since then.
ALTER TABLE sessions RENAME COLUMN params TO initial;
ALTER TABLE sessions RENAME COLUMN result TO answer;
ALTER TABLE sessions ADD COLUMN setup BLOB NOT NULL DEFAULT x'';
ALTER TABLE sessions ADD COLUMN workspace TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN instance TEXT NOT NULL DEFAULT '';
