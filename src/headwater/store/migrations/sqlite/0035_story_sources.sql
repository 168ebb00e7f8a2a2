-- Of a story: whether it has a post of a source (I1), and which posts are in an article (V1).
DROP INDEX posts_story;
CREATE INDEX posts_story ON posts (story_id, source_id, is_linked) WHERE story_id IS NOT NULL;
