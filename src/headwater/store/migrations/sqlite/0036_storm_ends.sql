-- When the end of a storm was noticed and its failing sources were requested (Y6).
ALTER TABLE storms ADD COLUMN ended_at INTEGER;
