-- Structure and metadata of posts (T1-T3), and the name a source gives itself (T5). Rows that exist
-- already have none: adding columns without a default rewrites nothing.
ALTER TABLE posts ADD COLUMN markdown TEXT;
ALTER TABLE posts ADD COLUMN enclosures TEXT;
ALTER TABLE posts ADD COLUMN categories TEXT;
ALTER TABLE posts ADD COLUMN language TEXT;
ALTER TABLE posts ADD COLUMN image_url TEXT;
ALTER TABLE posts ADD COLUMN completeness TEXT;
ALTER TABLE posts ADD COLUMN text_from TEXT;
ALTER TABLE articles ADD COLUMN markdown TEXT;
ALTER TABLE sources ADD COLUMN title TEXT;
