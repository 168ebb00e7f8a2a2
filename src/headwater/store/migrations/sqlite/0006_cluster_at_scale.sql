-- A SQLite file has one poller, and no shards.
SELECT 1;
