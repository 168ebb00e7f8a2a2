"""What calls return: the documents of the API as frozen dataclasses with Python's names."""
