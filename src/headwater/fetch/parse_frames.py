"""What a parse worker and its owner say to each other: frames of JSON and of raw bytes.

A frame is its length in four bytes, big end first, and then that many bytes. A job is a frame of
JSON (task, url, content type, seconds, most, more) and a frame with the document as it came. With
`more` another job follows before the first one is answered. The answer to a job is any number of
frames `["entries", [...]]` and then one of `["done", ...]` or `["error", ...]`, whose last field
says whether the worker ends with this answer. Nothing is ever evaluated (Q1).
"""

import json
import struct
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, BinaryIO

from headwater.model import Entry

# A frame of entries is kept small: decoding one holds the interpreter, and the event loop with it.
BATCH_CHARACTERS = 256 * 1024
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
    return _ENCODER.encode(value).encode("utf-8", "surrogatepass")


def from_json(payload: bytes) -> Any:
    """Decode a message."""
    return json.loads(payload.decode("utf-8", "surrogatepass"))


def batches(entries: Iterable[Entry]) -> Iterator[list[list[Any]]]:
    """Pack entries into lists that make frames of a moderate size."""
    batch: list[list[Any]] = []
    size = 0
    for entry in entries:
        batch.append(_pack(entry))
        size += len(entry.body) + len(entry.plain_body or "") + len(entry.title)
        size += len(entry.url or "") + 100
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def unpack(fields: list[Any]) -> Entry:
    """Make an entry of its fields again."""
    id_, title, url, published_at, author, body, plain_body, has_link = fields
    return Entry(
        id=id_,
        title=title or "",
        url=url,
        published_at=None if published_at is None else datetime.fromisoformat(published_at),
        author=author,
        body=body or "",
        plain_body=plain_body,
        has_link=has_link,
    )


def _pack(entry: Entry) -> list[Any]:
    published_at = None if entry.published_at is None else entry.published_at.isoformat()
    return [
        entry.id,
        entry.title,
        entry.url,
        published_at,
        entry.author,
        entry.body,
        entry.plain_body,
        entry.has_link,
    ]
