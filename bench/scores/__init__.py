"""How right the readers are on real documents."""
