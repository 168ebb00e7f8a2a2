-- Full text of the pages that feed entries link to (T4).
ALTER TABLE sources ADD COLUMN full_text TEXT NOT NULL DEFAULT 'off';

-- The plain text of a post's page where `body` is not it, and why a page was not used.
ALTER TABLE posts ADD COLUMN page_text TEXT;
ALTER TABLE posts ADD COLUMN full_text_error TEXT;

-- Pages that are to be visited. A row is deleted when its page was read, or is given up.
CREATE TABLE page_visits (
    post_id TEXT COLLATE "C" PRIMARY KEY REFERENCES posts (id) ON DELETE CASCADE,
    source_id TEXT COLLATE "C" NOT NULL REFERENCES sources (id) ON DELETE CASCADE,
    host TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    not_before BIGINT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    give_up_at BIGINT, -- set by the first attempt
    shard SMALLINT NOT NULL DEFAULT 0
);

CREATE INDEX page_visits_source ON page_visits (source_id);
CREATE INDEX page_visits_due ON page_visits (not_before);
CREATE INDEX page_visits_host ON page_visits (host);
CREATE INDEX page_visits_shard ON page_visits (shard, not_before);

CREATE FUNCTION headwater_set_page_shard() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    NEW.shard := headwater_shard(NEW.host); RETURN NEW; END
$$;

CREATE TRIGGER page_visits_shard BEFORE INSERT ON page_visits
    FOR EACH ROW EXECUTE FUNCTION headwater_set_page_shard();
