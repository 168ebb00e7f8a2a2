-- Poll history older than app.source.poll-history-days: one row per source and day (UTC).
CREATE TABLE poll_days (
    source_id TEXT COLLATE "C" NOT NULL REFERENCES sources (id) ON DELETE CASCADE,
    day INTEGER NOT NULL, -- since 1970-01-01
    stored INTEGER NOT NULL,
    unchanged INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    new_posts BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL,
    failures TEXT, -- failed polls by kind of failure, as JSON
    first_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (source_id, day)
);

-- Expired days are found without reading the others.
CREATE INDEX poll_days_day ON poll_days (day);
