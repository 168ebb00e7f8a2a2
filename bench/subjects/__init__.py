"""What is measured: each way in a process of its own that is told when to begin a round."""
