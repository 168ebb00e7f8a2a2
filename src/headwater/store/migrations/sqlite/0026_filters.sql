-- Filters (B2): queries of sources and podcasts, and which of them hides a post.
ALTER TABLE sources ADD COLUMN keep TEXT;
ALTER TABLE sources ADD COLUMN block TEXT;
ALTER TABLE podcasts ADD COLUMN keep TEXT;
ALTER TABLE podcasts ADD COLUMN block TEXT;
ALTER TABLE posts ADD COLUMN filtered_by TEXT;
CREATE INDEX posts_filtered ON posts (podcast_id, id, filtered_by) WHERE filtered_by IS NOT NULL;
CREATE INDEX posts_filtered_of_source ON posts (source_id, id, filtered_by)
    WHERE filtered_by IS NOT NULL;

-- Changed filters, and up to where their posts were evaluated again. An empty source_id: all.
CREATE TABLE filter_changes (
    podcast_id TEXT NOT NULL REFERENCES podcasts (id) ON DELETE CASCADE,
    source_id TEXT NOT NULL,
    version INTEGER NOT NULL DEFAULT 1,
    position_at INTEGER NOT NULL DEFAULT 0,
    position_id TEXT NOT NULL DEFAULT '',
    not_before INTEGER,
    PRIMARY KEY (podcast_id, source_id)
) WITHOUT ROWID;
