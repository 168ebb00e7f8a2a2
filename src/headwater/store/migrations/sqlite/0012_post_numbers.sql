-- A number that increases as posts are stored (R9). Cleanup numbers the posts that are there
-- already in batches: updating all of them here would rewrite the whole table.
ALTER TABLE posts ADD COLUMN seq INTEGER;
CREATE UNIQUE INDEX posts_seq ON posts (seq) WHERE seq IS NOT NULL;
CREATE INDEX posts_unnumbered ON posts (created_at, id) WHERE seq IS NULL;

-- The last number that was used, even if its post was deleted since.
CREATE TABLE post_numbers (last INTEGER NOT NULL);
INSERT INTO post_numbers SELECT count(*) FROM posts;

-- The numbers that are reserved for the posts that are there already: the first and the last one.
INSERT INTO facts (name, value)
SELECT 'numbers of earlier posts', '1-' || count(*) FROM posts HAVING count(*) > 0;
