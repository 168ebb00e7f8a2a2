-- Posts that report the same in the same words share a story (I1).
ALTER TABLE posts ADD COLUMN story_id TEXT;
CREATE INDEX posts_story ON posts (story_id) WHERE story_id IS NOT NULL;

-- Hashes of links and phrases, by which copies are found; the podcast is part of each hash.
CREATE TABLE story_marks (
    mark INTEGER NOT NULL,
    seq INTEGER NOT NULL, -- of the post
    PRIMARY KEY (mark, seq)
) WITHOUT ROWID;

CREATE INDEX story_marks_seq ON story_marks (seq);

-- Whether aggregation and the dashboard show a story once (I2).
ALTER TABLE podcasts ADD COLUMN stories BOOLEAN NOT NULL DEFAULT TRUE;

-- The post is a copy of one that the article was made of.
ALTER TABLE post_articles ADD COLUMN is_copy BOOLEAN NOT NULL DEFAULT FALSE;
