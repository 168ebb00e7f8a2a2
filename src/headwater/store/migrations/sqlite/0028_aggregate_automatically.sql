-- Whether each tick aggregates the posts of a podcast (E2).
ALTER TABLE podcasts ADD COLUMN aggregate_automatically BOOLEAN NOT NULL DEFAULT FALSE;
