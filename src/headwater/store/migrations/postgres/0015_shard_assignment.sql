-- Workers keep shards open instead of taking jobs from a queue.

-- A draining worker hands over its shards and opens none.
ALTER TABLE workers ADD COLUMN draining BOOLEAN NOT NULL DEFAULT FALSE;
-- The last query for due sources; NULL: a worker of an older version, which opens no shards.
ALTER TABLE workers ADD COLUMN ticked_at BIGINT;
-- Heartbeats update the same rows every second: room for new row versions on the same page.
ALTER TABLE workers SET (fillfactor = 50);

ALTER TABLE shards ALTER worker TYPE TEXT COLLATE "C";
CREATE INDEX shards_worker ON shards (worker);

-- The job queue of older versions, unless another program uses it too.
DO $$
DECLARE
    statement TEXT;
    has_other_jobs BOOLEAN;
BEGIN
    IF to_regclass('headwater_jobs_lock') IS NULL THEN
        RETURN;
    END IF;
    EXECUTE 'SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE task_name NOT LIKE ''headwater.%'')'
        INTO has_other_jobs;
    IF has_other_jobs THEN
        DROP INDEX headwater_jobs_lock;
        RETURN;
    END IF;
    FOR statement IN
        SELECT format('DROP TABLE IF EXISTS %s CASCADE', oid::REGCLASS) FROM pg_class
        WHERE relnamespace = current_schema()::REGNAMESPACE AND relkind = 'r'
            AND relname LIKE 'procrastinate\_%'
        UNION ALL SELECT format('DROP FUNCTION IF EXISTS %s CASCADE', oid::REGPROCEDURE) FROM pg_proc
        WHERE pronamespace = current_schema()::REGNAMESPACE AND proname LIKE 'procrastinate\_%'
        UNION ALL SELECT format('DROP TYPE IF EXISTS %s CASCADE', oid::REGTYPE) FROM pg_type
        WHERE typnamespace = current_schema()::REGNAMESPACE AND typname LIKE 'procrastinate\_%'
            AND (typtype = 'e' OR typtype = 'c' AND typrelid IN
                (SELECT oid FROM pg_class WHERE relkind = 'c'))
    LOOP
        EXECUTE statement;
    END LOOP;
END $$;
