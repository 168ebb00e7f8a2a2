-- What is watched of a web page (W4): JSON. Adding a column without a default rewrites nothing.
ALTER TABLE sources ADD COLUMN watch TEXT;
