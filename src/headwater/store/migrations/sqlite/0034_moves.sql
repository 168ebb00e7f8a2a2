-- A permanent redirect that polls of a source follow (Y4), as JSON; when failures disabled it (Y9).
ALTER TABLE sources ADD COLUMN redirect TEXT;
ALTER TABLE sources ADD COLUMN disabled_at INTEGER;
UPDATE sources SET disabled_at = last_polled WHERE NOT enabled AND disabled_reason IS NOT NULL;

-- The next attempt to poll an auto-disabled source: 1, 3, 7, 14 and 28 days after it was disabled.
ALTER TABLE sources ADD COLUMN probation_due_at INTEGER GENERATED ALWAYS AS (
    CASE
        WHEN enabled OR disabled_at IS NULL THEN NULL
        WHEN coalesce(last_polled, 0) < disabled_at + 86400000 THEN disabled_at + 86400000
        WHEN last_polled < disabled_at + 259200000 THEN disabled_at + 259200000
        WHEN last_polled < disabled_at + 604800000 THEN disabled_at + 604800000
        WHEN last_polled < disabled_at + 1209600000 THEN disabled_at + 1209600000
        WHEN last_polled < disabled_at + 2419200000 THEN disabled_at + 2419200000
    END) VIRTUAL;
CREATE INDEX sources_probation_due ON sources (probation_due_at)
    WHERE NOT enabled AND probation_due_at IS NOT NULL;

-- What an undo of an accepted suggestion needs.
ALTER TABLE suggestions ADD COLUMN accepted_at INTEGER;
ALTER TABLE suggestions ADD COLUMN previous_url TEXT;
CREATE INDEX suggestions_open ON suggestions (created_at) WHERE state = 'open';

-- Searches for lost feeds (Y5): the last one of each source.
CREATE TABLE feed_searches (
    source_id TEXT PRIMARY KEY REFERENCES sources (id) ON DELETE CASCADE,
    feed_url TEXT NOT NULL, -- the lost one
    started_at INTEGER NOT NULL,
    not_before INTEGER, -- of the next visit; NULL: the search is over
    host TEXT, -- of the next visit
    progress TEXT NOT NULL, -- JSON: what is still to be visited, and what was found
    result TEXT -- in one line, once the search is over
) WITHOUT ROWID;

CREATE INDEX feed_searches_due ON feed_searches (not_before) WHERE not_before IS NOT NULL;
