-- Numbers for articles, and for changes of posts and articles, from the sequence of the posts (V1).
-- Cleanup numbers the articles that are there already in batches.
ALTER TABLE posts ADD COLUMN changed_seq BIGINT;
CREATE INDEX posts_podcast_seq ON posts (podcast_id, seq);
CREATE INDEX posts_changed ON posts (changed_seq) WHERE changed_seq IS NOT NULL;
CREATE INDEX posts_podcast_changed ON posts (podcast_id, changed_seq) WHERE changed_seq IS NOT NULL;

ALTER TABLE articles ADD COLUMN seq BIGINT;
ALTER TABLE articles ADD COLUMN changed_seq BIGINT;
CREATE UNIQUE INDEX articles_seq ON articles (seq) WHERE seq IS NOT NULL;
CREATE INDEX articles_unnumbered ON articles (created_at, id) WHERE seq IS NULL;
CREATE INDEX articles_podcast_seq ON articles (podcast_id, seq);
CREATE INDEX articles_changed ON articles (changed_seq) WHERE changed_seq IS NOT NULL;
CREATE INDEX articles_podcast_changed ON articles (podcast_id, changed_seq)
    WHERE changed_seq IS NOT NULL;
