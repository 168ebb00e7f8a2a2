"""Host access: which host may be contacted when, and by which process."""
