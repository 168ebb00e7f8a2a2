-- Who may come in: a token of a user, or of an administrator (no user).
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL
);

CREATE INDEX tokens_user ON tokens (user_id);

-- Posts and articles know their podcast, so that a page of a long list costs what it shows.
ALTER TABLE posts ADD COLUMN podcast_id TEXT NOT NULL DEFAULT '';
UPDATE posts SET podcast_id = (SELECT podcast_id FROM sources WHERE sources.id = posts.source_id);
CREATE INDEX posts_podcast_newest ON posts (podcast_id, id);
CREATE INDEX posts_source_newest ON posts (source_id, id);

ALTER TABLE articles ADD COLUMN podcast_id TEXT NOT NULL DEFAULT '';
UPDATE articles
SET podcast_id = (SELECT podcast_id FROM sources WHERE sources.id = articles.source_id);
CREATE INDEX articles_podcast_newest ON articles (podcast_id, id);
CREATE INDEX articles_unprocessed ON articles (podcast_id, id) WHERE NOT is_processed;
