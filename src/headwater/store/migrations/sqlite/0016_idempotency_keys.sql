-- Requests with an Idempotency-Key of the last 24 hours, and their responses.
CREATE TABLE idempotency_keys (
    id TEXT PRIMARY KEY, -- a hash of caller, path and key
    user_id TEXT REFERENCES users (id) ON DELETE CASCADE, -- NULL: an administrator
    fingerprint TEXT NOT NULL, -- a hash of query and body
    attempt TEXT NOT NULL, -- only this attempt may write
    created_at INTEGER NOT NULL,
    has_written BOOLEAN NOT NULL DEFAULT FALSE, -- set in the transaction of each write
    response TEXT -- as JSON; NULL while the request runs, or if it was not kept
);

CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);
CREATE INDEX idempotency_keys_user ON idempotency_keys (user_id);
