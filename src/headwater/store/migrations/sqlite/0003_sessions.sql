-- Browsers that are logged in: each with a token, for a while, known by the hash of its cookie.
CREATE TABLE sessions (
    hash TEXT PRIMARY KEY,
    token_id TEXT NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX sessions_token ON sessions (token_id);

-- Posts that are in no article yet: an aggregation reads those alone, however many are.
CREATE INDEX posts_waiting ON posts (podcast_id, id) WHERE NOT is_linked;
