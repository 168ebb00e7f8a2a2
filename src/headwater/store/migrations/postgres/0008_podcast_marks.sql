-- What is known to a podcast that takes a story once, whichever of its sources brings it (D5): one
-- look per hash, however many sources there are. Other podcasts have no rows here.
CREATE TABLE podcast_marks (
    podcast_id TEXT NOT NULL,
    mark TEXT NOT NULL,
    source_id TEXT NOT NULL REFERENCES sources (id) ON DELETE CASCADE,
    PRIMARY KEY (podcast_id, mark, source_id)
);

CREATE INDEX podcast_marks_source ON podcast_marks (source_id, mark);

-- How far the marks of what such a podcast had stored before are written.
CREATE TABLE marked_podcasts (
    podcast_id TEXT PRIMARY KEY REFERENCES podcasts (id) ON DELETE CASCADE,
    since BIGINT NOT NULL,
    source_id TEXT NOT NULL DEFAULT '',
    mark TEXT NOT NULL DEFAULT '',
    is_complete BOOLEAN NOT NULL DEFAULT FALSE
);

CREATE INDEX podcasts_deduping ON podcasts (id) WHERE dedupe_across_sources;
