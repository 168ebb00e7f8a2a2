"""The query language of searches and filters: parser, syntax tree and evaluator (B1)."""
