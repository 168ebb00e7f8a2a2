-- Articles of threads (E3): the conversation of a post on X, the thread of an article, and the article
-- that it follows up on. That one may be deleted, so there is no foreign key.
ALTER TABLE sources ADD COLUMN aggregate_by TEXT NOT NULL DEFAULT 'source';
ALTER TABLE posts ADD COLUMN conversation_id TEXT COLLATE "C";
ALTER TABLE articles ADD COLUMN thread_id TEXT COLLATE "C";
ALTER TABLE articles ADD COLUMN follow_up_of TEXT COLLATE "C";
CREATE INDEX articles_thread ON articles (source_id, thread_id) WHERE thread_id IS NOT NULL;
