"""Secrets from files: the value of a `…-file` key, and systemd credentials (U6).

Errors name the key and the file, never the content.
"""

from pathlib import Path

MAX_SECRET_BYTES = 65_536


def read_secret(file: Path, *, several: bool) -> str | list[str]:
    """The text of a file without surrounding white space; `several`: a list with its lines.

    ValueError says what is wrong with the file.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_SECRET_BYTES + 1)
    except FileNotFoundError:
        raise ValueError("does not exist") from None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_SECRET_BYTES:
        raise ValueError(f"has more than {MAX_SECRET_BYTES:,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text") from None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError("is empty")
    if several:
        return lines
    if len(lines) > 1:
        raise ValueError("must contain one line")
    return lines[0]
