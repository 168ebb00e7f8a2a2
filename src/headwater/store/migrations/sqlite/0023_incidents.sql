-- Incidents (Y1): at most one is open per kind, user and host.
CREATE TABLE incidents (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    severity TEXT NOT NULL,
    user_id TEXT REFERENCES users (id) ON DELETE CASCADE, -- NULL: of the whole service
    host TEXT,
    title TEXT NOT NULL,
    advice TEXT NOT NULL,
    opened_at INTEGER NOT NULL,
    closed_at INTEGER
);

CREATE UNIQUE INDEX incidents_open ON incidents (kind, coalesce(user_id, ''), coalesce(host, ''))
    WHERE closed_at IS NULL;
CREATE INDEX incidents_user ON incidents (user_id, opened_at);
CREATE INDEX incidents_closed ON incidents (closed_at) WHERE closed_at IS NOT NULL;

CREATE TABLE incident_sources (
    incident_id TEXT NOT NULL REFERENCES incidents (id) ON DELETE CASCADE,
    source_id TEXT NOT NULL REFERENCES sources (id) ON DELETE CASCADE,
    PRIMARY KEY (incident_id, source_id)
) WITHOUT ROWID;

CREATE INDEX incident_sources_source ON incident_sources (source_id);

-- The newest publication times of each source, in minutes as JSON, and when it counts as silent if
-- nothing follows them. They outlive the posts.
CREATE TABLE source_activity (
    source_id TEXT PRIMARY KEY REFERENCES sources (id) ON DELETE CASCADE,
    published TEXT NOT NULL,
    silent_after INTEGER
) WITHOUT ROWID;

CREATE INDEX source_activity_silent ON source_activity (silent_after)
    WHERE silent_after IS NOT NULL;

-- Failing sources are found without reading the others.
CREATE INDEX sources_failing ON sources (failing_since) WHERE failing_since IS NOT NULL;
