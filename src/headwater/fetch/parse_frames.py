"""What a parse worker and its owner say to each other: frames of JSON and of raw bytes.

A frame is its length in four bytes, big end first, and then that many bytes. A job is a frame of
JSON (task, url, content type, seconds, most, more) and a frame with the document as it came. With
`more` another job follows before the first one is answered. The answer to a job is any number of
frames `["entries", [...]]` and then one of `["done", ...]` or `["error", ...]`, whose last field
says whether the worker ends with this answer. Where an entry has a number in place of a text, that
text is so long, and comes in a frame of its own behind those entries. Nothing is ever evaluated
(Q1).
"""

import json
import struct
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, BinaryIO

from headwater.model import Entry

# A frame of entries is kept small: decoding one holds the interpreter, and the event loop with it.
_BATCH_CHARACTERS = 256 * 1024
# A text that is longer goes as it is: as JSON it would be there three times meanwhile, in
# characters as wide as its widest (H1).
LONG_TEXT = 1 << 20  # characters
# Of a pipe's ends: every call of the system costs the owner's thread a wait for the interpreter.
BUFFER_BYTES = 256 * 1024
_LENGTH = struct.Struct(">I")
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class BrokenFrame(Exception):
    """The stream ended inside a frame."""


class FrameTooLong(BrokenFrame):
    """A frame is longer than its reader allows."""


def write_frame(stream: BinaryIO, payload: bytes) -> None:
    """Write one frame; the caller flushes."""
    stream.write(_LENGTH.pack(len(payload)))
    stream.write(payload)


def read_frame(stream: BinaryIO, *, limit: int) -> bytes | None:
    """Read one frame, or None where the stream ends between two."""
    head = stream.read(_LENGTH.size)
    if not head:
        return None
    if len(head) < _LENGTH.size:
        raise BrokenFrame("the stream ended inside a frame")
    (length,) = _LENGTH.unpack(head)
    if length > limit:
        raise FrameTooLong(f"a frame of {length} bytes is longer than {limit}")
    payload = stream.read(length)
    if len(payload) < length:
        raise BrokenFrame("the stream ended inside a frame")
    return payload


def to_json(value: object) -> bytes:
    """Encode a message; even a lone surrogate comes back as it was."""
    return _encoded(_ENCODER.encode(value))


def from_json(payload: bytes) -> Any:
    """Decode a message."""
    return json.loads(from_text(payload))


def from_text(payload: bytes) -> str:
    """Decode a text that comes as it is."""
    return payload.decode("utf-8", "surrogatepass")


def write_entries(stream: BinaryIO, entries: Iterable[Entry]) -> None:
    """Write frames of a moderate size, and keep no entry longer than it takes."""
    batch: list[list[Any]] = []
    texts: deque[str] = deque()
    size = 0
    for entry in entries:
        batch.append(_pack(entry, texts))
        size += len(entry.body) + len(entry.plain_body or "") + len(entry.title)
        size += len(entry.url or "") + 100
        del entry
        if size >= _BATCH_CHARACTERS:
            _write_batch(stream, batch, texts)
            size = 0
    if batch:
        _write_batch(stream, batch, texts)


def unpack(fields: list[Any], next_text: Callable[[], str]) -> Entry:
    """Make an entry of its fields again."""
    id_, title, url, published_at, author, body, plain_body, has_link = fields
    return Entry(
        id=id_,
        title=title or "",
        url=url,
        published_at=None if published_at is None else datetime.fromisoformat(published_at),
        author=author,
        body=_long_text(body, next_text) if type(body) is int else body,
        plain_body=_long_text(plain_body, next_text) if type(plain_body) is int else plain_body,
        has_link=has_link,
    )


def _long_text(length: int, next_text: Callable[[], str]) -> str:
    text = next_text()
    if len(text) != length:
        raise BrokenFrame(f"a text has {len(text):,} characters instead of {length:,}")
    return text


def _write_batch(stream: BinaryIO, batch: list[list[Any]], texts: deque[str]) -> None:
    message = to_json(("entries", batch))
    batch.clear()
    write_frame(stream, message)
    while texts:
        write_frame(stream, _encoded(texts.popleft()))


def _pack(entry: Entry, texts: deque[str]) -> list[Any]:
    published_at = None if entry.published_at is None else entry.published_at.isoformat()
    return [
        entry.id,
        entry.title,
        entry.url,
        published_at,
        entry.author,
        _in_place(entry.body, texts),
        _in_place(entry.plain_body, texts),
        entry.has_link,
    ]


def _in_place(text: str | None, texts: deque[str]) -> str | int | None:
    if text is None or len(text) <= LONG_TEXT:
        return text
    texts.append(text)
    return len(text)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
