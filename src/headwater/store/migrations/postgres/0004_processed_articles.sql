-- Articles that somebody worked off: a page of them costs what it shows, however many others wait.
CREATE INDEX articles_processed ON articles (podcast_id, id) WHERE is_processed;
