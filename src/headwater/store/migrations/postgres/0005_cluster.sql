-- Several workers may poll one database: they share the lanes out by shards.

-- The shard of a lane; `rules.shards.shard_of` computes the same.
CREATE FUNCTION headwater_shard(lane TEXT) RETURNS SMALLINT LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT get_byte(decode(md5(lane), 'hex'), 0)::SMALLINT
$$;

ALTER TABLE sources ADD COLUMN shard SMALLINT NOT NULL DEFAULT 0;

CREATE FUNCTION headwater_set_shard() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    NEW.shard := headwater_shard(CASE WHEN NEW.type = 'twitter'
        THEN 'x.com/' || (SELECT user_id FROM podcasts WHERE id = NEW.podcast_id)
        ELSE coalesce(NEW.host, '') END); RETURN NEW; END
$$;

CREATE TRIGGER sources_shard BEFORE INSERT OR UPDATE OF type, host, podcast_id ON sources
    FOR EACH ROW EXECUTE FUNCTION headwater_set_shard();

UPDATE sources SET host = host;

-- Who has a shard open. Each opening has a number of its own: a worker that slept through the
-- next one cannot store anything. A worker that is still named was not closed cleanly.
CREATE TABLE shards (
    shard SMALLINT PRIMARY KEY,
    epoch BIGINT NOT NULL DEFAULT 0,
    worker TEXT,
    opened_at BIGINT
);

INSERT INTO shards (shard) SELECT generate_series(0, 255);

CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    machine TEXT NOT NULL,
    pid INTEGER NOT NULL,
    backend INTEGER,
    started_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    in_flight INTEGER NOT NULL DEFAULT 0,
    polls BIGINT NOT NULL DEFAULT 0,
    leases_lost BIGINT NOT NULL DEFAULT 0
);
