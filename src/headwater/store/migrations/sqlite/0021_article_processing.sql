-- The name that articles were marked as processed with, and until when undone ones are kept (E1).
-- Adding columns without a default rewrites nothing.
ALTER TABLE articles ADD COLUMN batch TEXT;
ALTER TABLE articles ADD COLUMN kept_until INTEGER;
ALTER TABLE posts ADD COLUMN kept_until INTEGER;
CREATE INDEX articles_batch ON articles (podcast_id, batch, processed_at, id)
    WHERE batch IS NOT NULL;

-- What clients store with posts and articles (E4): a number, and a JSON object as text.
ALTER TABLE posts ADD COLUMN score REAL;
ALTER TABLE posts ADD COLUMN annotations TEXT;
ALTER TABLE articles ADD COLUMN score REAL;
ALTER TABLE articles ADD COLUMN annotations TEXT;
CREATE INDEX posts_scored ON posts (podcast_id, id) WHERE score IS NOT NULL;
CREATE INDEX articles_scored ON articles (podcast_id, id) WHERE score IS NOT NULL;
