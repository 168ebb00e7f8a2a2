-- What a token permits, until when, and when it was last used. Tokens without a user were
-- administrators'.
ALTER TABLE tokens ADD COLUMN scope TEXT NOT NULL DEFAULT 'user';
ALTER TABLE tokens ADD COLUMN expires_at BIGINT;
ALTER TABLE tokens ADD COLUMN last_used_at BIGINT;
UPDATE tokens SET scope = 'admin' WHERE user_id IS NULL;
