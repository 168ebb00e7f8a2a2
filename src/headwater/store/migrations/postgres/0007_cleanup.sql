-- What is past its time is found podcast by podcast: a long age limit here costs nothing there.
-- An aggregation finds what waits by the same index.
DROP INDEX posts_unlinked;
DROP INDEX posts_waiting;
CREATE INDEX posts_unlinked_age ON posts (podcast_id, created_at) WHERE NOT is_linked;

-- Not by the bare podcast_id: a list of articles is to keep to its own index, which is in its order.
DROP INDEX articles_age;
CREATE INDEX articles_unprocessed_age
    ON articles ((podcast_id || ''), coalesce(published_at, created_at)) WHERE NOT is_processed;
CREATE INDEX articles_processed_age
    ON articles (greatest(coalesce(published_at, created_at), coalesce(processed_at, created_at)))
    WHERE is_processed;
