"""What a person can do, one function each."""
