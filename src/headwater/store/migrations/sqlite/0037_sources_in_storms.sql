-- Sources that failed in a storm of their host and have not succeeded since (Y6).
ALTER TABLE sources ADD COLUMN in_storm BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE sources SET in_storm = TRUE WHERE consecutive_failures > 0 AND first_poll_done
    AND EXISTS (SELECT 1 FROM storms w WHERE w.host = sources.host
        AND coalesce(sources.last_success_at, 0) <= w.since);
