-- The search index of posts and articles (B3), written after they are stored. `number` is `seq`.
CREATE TABLE search_documents (
    number BIGINT PRIMARY KEY,
    scope TEXT COLLATE "C" NOT NULL, -- the podcast, and whether this is a post or an article
    words TEXT NOT NULL, -- the tokens of each field, one field per line, for phrases
    lexemes TSVECTOR NOT NULL
);
CREATE INDEX search_documents_scope ON search_documents (scope, number);
CREATE INDEX search_documents_lexemes ON search_documents USING gin (lexemes);

-- Numbers of deleted posts and articles that cleanup has yet to remove from the index.
CREATE TABLE search_removals (number BIGINT PRIMARY KEY);

CREATE FUNCTION headwater_note_search_removals() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO search_removals SELECT seq FROM removed WHERE seq IS NOT NULL ON CONFLICT DO NOTHING;
    RETURN NULL; END
$$;

CREATE TRIGGER posts_search_removal AFTER DELETE ON posts REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION headwater_note_search_removals();

CREATE TRIGGER articles_search_removal AFTER DELETE ON articles REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION headwater_note_search_removals();

-- Named queries, each with a feed. The token is stored as it is: its owner can see it again, and it
-- permits reading one feed only.
CREATE TABLE saved_searches (
    podcast_id TEXT COLLATE "C" NOT NULL REFERENCES podcasts (id) ON DELETE CASCADE,
    name TEXT COLLATE "C" NOT NULL,
    query TEXT NOT NULL,
    feed_token TEXT COLLATE "C" NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (podcast_id, name)
);
