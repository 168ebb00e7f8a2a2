-- Changes to the settings of sources that are proposed to their owners (W6).
CREATE TABLE suggestions (
    source_id TEXT COLLATE "C" NOT NULL REFERENCES sources (id) ON DELETE CASCADE,
    id TEXT COLLATE "C" NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL, -- JSON
    created_at BIGINT NOT NULL,
    state TEXT NOT NULL, -- open, accepted or dismissed
    PRIMARY KEY (source_id, id)
);

-- The last version of pages whose posts have additions only: cleanup may delete its post (W5).
CREATE TABLE page_versions (
    source_id TEXT COLLATE "C" PRIMARY KEY REFERENCES sources (id) ON DELETE CASCADE,
    text TEXT NOT NULL
);
