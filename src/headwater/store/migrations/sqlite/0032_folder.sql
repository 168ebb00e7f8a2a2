-- The folder of a source (V3). Adding a column without a default rewrites nothing.
ALTER TABLE sources ADD COLUMN folder TEXT;
