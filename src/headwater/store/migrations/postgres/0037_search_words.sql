-- SQLite has a table of words from here on. The GIN index finds prefixes by itself.
SELECT 1;
