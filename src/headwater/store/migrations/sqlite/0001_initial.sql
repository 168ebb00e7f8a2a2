-- Moments are epoch milliseconds. Columns without a meaning for others are private.

CREATE TABLE users (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE podcasts (
    id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    max_article_age_days INTEGER,
    dedupe_across_sources BOOLEAN NOT NULL DEFAULT FALSE,
    created_at INTEGER NOT NULL DEFAULT 0,
    UNIQUE (user_id, name)
);

CREATE TABLE api_keys (
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    provider TEXT NOT NULL,
    key_id TEXT NOT NULL,
    nonce BLOB NOT NULL,
    ciphertext BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, provider)
);

CREATE TABLE sources (
    id TEXT PRIMARY KEY,
    podcast_id TEXT NOT NULL REFERENCES podcasts (id) ON DELETE CASCADE,
    type TEXT NOT NULL,
    url TEXT NOT NULL,
    created_at INTEGER NOT NULL DEFAULT 0,
    label TEXT,
    enabled BOOLEAN NOT NULL DEFAULT TRUE,
    poll_interval_minutes INTEGER NOT NULL DEFAULT 30,
    poll_delay_seconds INTEGER,
    max_failures INTEGER,
    max_backoff_hours INTEGER,
    late_entry_hours INTEGER,
    aggregate BOOLEAN,
    include_history BOOLEAN NOT NULL DEFAULT FALSE,
    last_polled INTEGER,
    last_success_at INTEGER,
    last_seen_id TEXT,
    consecutive_failures INTEGER NOT NULL DEFAULT 0,
    last_failure_type TEXT,
    failing_since INTEGER,
    last_error TEXT,
    disabled_reason TEXT,
    host TEXT,
    first_poll_done BOOLEAN NOT NULL DEFAULT FALSE,
    requested_at INTEGER,
    permanent_failures INTEGER NOT NULL DEFAULT 0,
    permanent_kind TEXT,
    etag TEXT,
    last_modified TEXT,
    body_hash TEXT,
    seen_keys TEXT,
    late_keys_kept BOOLEAN NOT NULL DEFAULT FALSE,
    hold_until INTEGER,
    hold_set_at INTEGER,
    hold_reason TEXT,
    generation INTEGER NOT NULL DEFAULT 0,
    -- Due without a stored due time (S3, S5): both follow from the columns above.
    backoff_due_at INTEGER GENERATED ALWAYS AS (
        last_polled
        + poll_interval_minutes * 60000 * (1 << min(max(consecutive_failures, 0), 27))
    ) VIRTUAL,
    cap_due_at INTEGER GENERATED ALWAYS AS (
        CASE WHEN consecutive_failures > 0 AND max_backoff_hours IS NOT NULL THEN
            last_polled + max(poll_interval_minutes, max_backoff_hours * 60) * 60000
        END
    ) VIRTUAL,
    -- TRUE: fails, and backs off up to the configured cap.
    default_cap BOOLEAN GENERATED ALWAYS AS (
        consecutive_failures > 0 AND max_backoff_hours IS NULL
    ) VIRTUAL
);

CREATE INDEX sources_podcast ON sources (podcast_id, created_at, id);
CREATE INDEX sources_host ON sources (host);
CREATE INDEX sources_url ON sources (url);
CREATE INDEX sources_backoff_due ON sources (backoff_due_at) WHERE enabled;
CREATE INDEX sources_cap_due ON sources (cap_due_at) WHERE enabled AND cap_due_at IS NOT NULL;
CREATE INDEX sources_last_polled ON sources (default_cap, last_polled) WHERE enabled;
CREATE INDEX sources_requested ON sources (requested_at) WHERE requested_at IS NOT NULL;

CREATE TABLE posts (
    id TEXT PRIMARY KEY,
    source_id TEXT NOT NULL REFERENCES sources (id) ON DELETE CASCADE,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    url TEXT NOT NULL,
    published_at INTEGER,
    author TEXT,
    content_hash TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    is_linked BOOLEAN NOT NULL DEFAULT FALSE,
    UNIQUE (source_id, content_hash)
);

CREATE INDEX posts_unlinked ON posts (created_at) WHERE NOT is_linked;

-- What was stored and then cleaned up stays known (D1).
CREATE TABLE tombstones (
    source_id TEXT NOT NULL REFERENCES sources (id) ON DELETE CASCADE,
    mark TEXT NOT NULL,
    link TEXT NOT NULL,
    PRIMARY KEY (source_id, mark)
) WITHOUT ROWID;

-- Keys of entries, kept while late entries are allowed (R8).
CREATE TABLE late_keys (
    source_id TEXT NOT NULL REFERENCES sources (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (source_id, key)
) WITHOUT ROWID;

CREATE TABLE articles (
    id TEXT PRIMARY KEY,
    source_id TEXT NOT NULL REFERENCES sources (id) ON DELETE CASCADE,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    url TEXT NOT NULL,
    published_at INTEGER,
    author TEXT,
    content_hash TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    is_processed BOOLEAN NOT NULL DEFAULT FALSE,
    processed_at INTEGER,
    UNIQUE (source_id, content_hash)
);

CREATE INDEX articles_age ON articles (is_processed, coalesce(published_at, created_at));

CREATE TABLE post_articles (
    post_id TEXT NOT NULL REFERENCES posts (id) ON DELETE CASCADE,
    article_id TEXT NOT NULL REFERENCES articles (id) ON DELETE CASCADE,
    PRIMARY KEY (post_id, article_id)
) WITHOUT ROWID;

CREATE INDEX post_articles_article ON post_articles (article_id);

CREATE TABLE polls (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source_id TEXT NOT NULL REFERENCES sources (id) ON DELETE CASCADE,
    started_at INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    status INTEGER,
    bytes INTEGER NOT NULL DEFAULT 0,
    new_posts INTEGER NOT NULL DEFAULT 0,
    skipped TEXT,
    failure_type TEXT,
    failure_kind TEXT,
    error TEXT,
    redirected_to TEXT
);

CREATE INDEX polls_source ON polls (source_id, id);

-- What is remembered of a lane (P3, P9), and for telling an outage (O2, O3).
CREATE TABLE hosts (
    lane TEXT PRIMARY KEY,
    next_allowed_at INTEGER,
    next_allowed_set_at INTEGER,
    hold_until INTEGER,
    hold_set_at INTEGER,
    hold_reason TEXT,
    last_success_at INTEGER,
    resolved_at INTEGER
) WITHOUT ROWID;

-- Single facts about this database: who polls it, whether polling is paused.
CREATE TABLE facts (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

INSERT INTO users (id, name) VALUES ('default', 'default');
INSERT INTO podcasts (id, user_id, name) VALUES ('default', 'default', 'default');
