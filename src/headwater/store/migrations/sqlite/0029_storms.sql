-- Failure storms (Y6): since when many sources of a host fail in the same way. A storm is over once a
-- source of the host has succeeded since.
CREATE TABLE storms (
    host TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    since INTEGER NOT NULL
) WITHOUT ROWID;
