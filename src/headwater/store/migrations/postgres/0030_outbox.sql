-- When a message began to wait for its next attempt: a clock that is set back does not lengthen the
-- wait (O4). Null: not known, or it does not wait.
ALTER TABLE deliveries ADD COLUMN next_attempt_set_at BIGINT;

UPDATE deliveries SET next_attempt_set_at = created_at
WHERE next_attempt_at IS NOT NULL AND attempts = 0;

-- The next messages of an endpoint are found in their order, however many are pending.
DROP INDEX deliveries_pending;
CREATE INDEX deliveries_pending ON deliveries (webhook_id, number, next_attempt_at)
    WHERE next_attempt_at IS NOT NULL;

-- The podcasts of the sources that an incident began with: those that are told that it began are
-- told that it ended, whatever becomes of the sources.
CREATE TABLE incident_podcasts (
    incident_id TEXT COLLATE "C" NOT NULL REFERENCES incidents (id) ON DELETE CASCADE,
    podcast_id TEXT COLLATE "C" NOT NULL REFERENCES podcasts (id) ON DELETE CASCADE,
    PRIMARY KEY (incident_id, podcast_id)
);

CREATE INDEX incident_podcasts_podcast ON incident_podcasts (podcast_id);

INSERT INTO incident_podcasts (incident_id, podcast_id)
SELECT DISTINCT m.incident_id, s.podcast_id
FROM incident_sources m JOIN sources s ON s.id = m.source_id;
