-- A SQLite file has one poller: what several workers on PostgreSQL share has no place here.
SELECT 1;
