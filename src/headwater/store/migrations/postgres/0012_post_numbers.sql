-- A number that increases as posts are stored (R9). Cleanup numbers the posts that are there
-- already in batches: updating all of them here would rewrite the whole table.
ALTER TABLE posts ADD COLUMN seq BIGINT;
CREATE UNIQUE INDEX posts_seq ON posts (seq) WHERE seq IS NOT NULL;
CREATE INDEX posts_unnumbered ON posts (created_at, id) WHERE seq IS NULL;

-- Shared by all workers; a number that is not stored is lost.
CREATE SEQUENCE post_numbers AS BIGINT;
SELECT setval('post_numbers', count(*)) FROM posts HAVING count(*) > 0;

-- The numbers that are reserved for the posts that are there already: the first and the last one.
INSERT INTO facts (name, value)
SELECT 'numbers of earlier posts', '1-' || count(*) FROM posts HAVING count(*) > 0;
