"""Parser pool: documents are parsed in worker processes with time and memory budgets (H2)."""
