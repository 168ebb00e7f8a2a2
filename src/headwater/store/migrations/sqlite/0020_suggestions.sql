-- Changes to the settings of sources that are proposed to their owners (W6).
CREATE TABLE suggestions (
    source_id TEXT NOT NULL REFERENCES sources (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL, -- JSON
    created_at INTEGER NOT NULL,
    state TEXT NOT NULL, -- open, accepted or dismissed
    PRIMARY KEY (source_id, id)
) WITHOUT ROWID;

-- The last version of pages whose posts have additions only: cleanup may delete its post (W5).
CREATE TABLE page_versions (
    source_id TEXT PRIMARY KEY REFERENCES sources (id) ON DELETE CASCADE,
    text TEXT NOT NULL
);
