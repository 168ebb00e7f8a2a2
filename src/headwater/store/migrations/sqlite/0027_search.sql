-- The search index of posts and articles (B3), written after they are stored. `rowid` is `seq`.
-- The columns have tokens that are separated by spaces: `ascii` only splits them again.
CREATE VIRTUAL TABLE search_index USING fts5(
    labels, title, author, category, text, url,
    content = '', columnsize = 0, tokenize = 'ascii'
);

-- The tokens of each row of the index, compressed: FTS5 needs them to delete the row.
CREATE TABLE search_documents (number INTEGER PRIMARY KEY, packed BLOB NOT NULL);

-- Numbers of deleted posts and articles that cleanup has yet to remove from the index.
CREATE TABLE search_removals (number INTEGER PRIMARY KEY);

CREATE TRIGGER posts_search_removal AFTER DELETE ON posts WHEN old.seq IS NOT NULL
    BEGIN INSERT OR IGNORE INTO search_removals VALUES (old.seq); END;

CREATE TRIGGER articles_search_removal AFTER DELETE ON articles WHEN old.seq IS NOT NULL
    BEGIN INSERT OR IGNORE INTO search_removals VALUES (old.seq); END;

-- Named queries, each with a feed. The token is stored as it is: its owner can see it again, and it
-- permits reading one feed only.
CREATE TABLE saved_searches (
    podcast_id TEXT NOT NULL REFERENCES podcasts (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    query TEXT NOT NULL,
    feed_token TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (podcast_id, name)
);
