-- Browsers that are logged in: each with a token, for a while, known by the hash of its cookie.
CREATE TABLE sessions (
    hash TEXT PRIMARY KEY,
    token_id TEXT NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    expires_at BIGINT NOT NULL
);

CREATE INDEX sessions_token ON sessions (token_id);
