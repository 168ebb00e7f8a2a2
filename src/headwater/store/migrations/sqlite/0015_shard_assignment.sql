-- A SQLite file has one polling process, and no shards.
SELECT 1;
