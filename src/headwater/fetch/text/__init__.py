"""Text conversion: character sets, HTML to plain text, sanitising for storage."""
