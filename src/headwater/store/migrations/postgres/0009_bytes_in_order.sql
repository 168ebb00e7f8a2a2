-- Texts that an index of ours has are compared by their bytes, whatever language the database speaks: a
-- comparison takes a fraction of the time, prefixes are found by the index, and no new version of
-- the operating system's rules puts an index out of order.
ALTER TABLE users ALTER id TYPE TEXT COLLATE "C", ALTER name TYPE TEXT COLLATE "C";
ALTER TABLE podcasts ALTER id TYPE TEXT COLLATE "C", ALTER user_id TYPE TEXT COLLATE "C",
    ALTER name TYPE TEXT COLLATE "C";
DROP TRIGGER sources_shard ON sources;
ALTER TABLE sources ALTER id TYPE TEXT COLLATE "C", ALTER podcast_id TYPE TEXT COLLATE "C",
    ALTER host TYPE TEXT COLLATE "C", ALTER url TYPE TEXT COLLATE "C";
CREATE TRIGGER sources_shard BEFORE INSERT OR UPDATE OF type, host, podcast_id ON sources
    FOR EACH ROW EXECUTE FUNCTION headwater_set_shard();
ALTER TABLE posts ALTER id TYPE TEXT COLLATE "C", ALTER source_id TYPE TEXT COLLATE "C",
    ALTER podcast_id TYPE TEXT COLLATE "C", ALTER content_hash TYPE TEXT COLLATE "C";
ALTER TABLE tombstones ALTER source_id TYPE TEXT COLLATE "C", ALTER mark TYPE TEXT COLLATE "C";
ALTER TABLE late_keys ALTER source_id TYPE TEXT COLLATE "C", ALTER key TYPE TEXT COLLATE "C";
ALTER TABLE articles ALTER id TYPE TEXT COLLATE "C", ALTER podcast_id TYPE TEXT COLLATE "C",
    ALTER source_id TYPE TEXT COLLATE "C", ALTER content_hash TYPE TEXT COLLATE "C";
ALTER TABLE post_articles ALTER post_id TYPE TEXT COLLATE "C",
    ALTER article_id TYPE TEXT COLLATE "C";
ALTER TABLE podcast_marks ALTER podcast_id TYPE TEXT COLLATE "C", ALTER mark TYPE TEXT COLLATE "C",
    ALTER source_id TYPE TEXT COLLATE "C";
ALTER TABLE marked_podcasts ALTER podcast_id TYPE TEXT COLLATE "C";
ALTER TABLE polls ALTER source_id TYPE TEXT COLLATE "C";
ALTER TABLE hosts ALTER lane TYPE TEXT COLLATE "C";
ALTER TABLE facts ALTER name TYPE TEXT COLLATE "C";
ALTER TABLE api_keys ALTER user_id TYPE TEXT COLLATE "C", ALTER provider TYPE TEXT COLLATE "C";
ALTER TABLE tokens ALTER id TYPE TEXT COLLATE "C", ALTER user_id TYPE TEXT COLLATE "C",
    ALTER hash TYPE TEXT COLLATE "C";
ALTER TABLE sessions ALTER hash TYPE TEXT COLLATE "C", ALTER token_id TYPE TEXT COLLATE "C";
ALTER TABLE workers ALTER id TYPE TEXT COLLATE "C";
-- What was known about these columns is lost with their old type, and the planner reads whole tables
-- without it. Of an empty table nothing should be known: it would be taken for one that stays empty.
DO $$ BEGIN IF EXISTS (SELECT FROM sources) THEN ANALYZE users, podcasts, sources, posts, tombstones,
    late_keys, articles, post_articles, podcast_marks, polls, hosts, facts; END IF; END $$;
