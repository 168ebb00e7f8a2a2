-- The longer words of the search index, except of links: prefixes are looked up here (B3). They stay
-- when their posts are deleted.
CREATE TABLE search_words (word TEXT PRIMARY KEY) WITHOUT ROWID;

CREATE VIRTUAL TABLE search_terms USING fts5vocab(search_index, col);
INSERT INTO search_words
SELECT DISTINCT term FROM search_terms WHERE col NOT IN ('labels', 'url') AND length(term) > 4;
DROP TABLE search_terms;
