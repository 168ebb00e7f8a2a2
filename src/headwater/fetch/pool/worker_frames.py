"""The protocol between a parser worker and its owner: frames of JSON and of raw bytes.

A frame is a length of four bytes, big-endian, and that many bytes. A job is a frame of JSON (task,
options, seconds, more) and a frame with the document. With `more`, another job follows before the
first result. A result is any number of entries and then `["done", ...]` or `["error", ...]`, whose
last field says whether the worker ends after it. An entry is a frame `["entry", ...]` and a frame
for each of its texts. Nothing is ever evaluated (Q1).
"""

import json
import struct
from collections.abc import Callable
from datetime import datetime
from typing import Any, BinaryIO

from headwater.model import Completeness, Enclosure, Entry

# Of both ends of a pipe: after each system call the owner's thread waits for the interpreter lock.
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
    """Read one frame; None if the stream ends before it."""
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
    """Encode a message; lone surrogates survive."""
    return _ENCODER.encode(value).encode("utf-8", "surrogatepass")


def from_json(payload: bytes) -> Any:
    """Decode a message."""
    return json.loads(payload.decode("utf-8", "surrogatepass"))


def entry_frames(entry: Entry) -> list[bytes]:
    """The frames of one entry; texts are raw, since as JSON there would be three copies (H1)."""
    published_at = None if entry.published_at is None else entry.published_at.isoformat()
    fields = (entry.id, entry.title, entry.url, published_at, entry.author, entry.has_link)
    enclosures = [(each.url, each.type, each.length) for each in entry.enclosures]
    metadata = (enclosures, entry.categories, entry.language, entry.image_url, entry.completeness)
    is_plain = entry.markdown == entry.body  # then it is sent, and kept, once
    texts = (
        entry.body, entry.plain_body, None if is_plain else entry.markdown, entry.page_text,
        entry.identity_hash,
    )  # fmt: skip
    is_there = [text is not None for text in texts]
    head = to_json(["entry", *fields, metadata, is_there, is_plain])
    return [head, *(text.encode("utf-8", "surrogatepass") for text in texts if text is not None)]


def read_entry(fields: list[Any], next_frame: Callable[[], bytes]) -> Entry:
    """The entry of these fields and of the texts in the next frames."""
    id_, title, url, published_at, author, has_link, metadata, is_there, is_plain = fields
    texts = [next_frame().decode("utf-8", "surrogatepass") if there else None for there in is_there]
    enclosures, categories, language, image_url, completeness = metadata
    return Entry(
        id=id_,
        title=title,
        url=url,
        published_at=None if published_at is None else datetime.fromisoformat(published_at),
        author=author,
        body=texts[0] or "",
        plain_body=texts[1],
        has_link=has_link,
        markdown=texts[0] if is_plain else texts[2],
        page_text=texts[3],
        identity_hash=texts[4],
        enclosures=tuple(Enclosure(*each) for each in enclosures),
        categories=tuple(categories),
        language=language,
        image_url=image_url,
        completeness=Completeness(completeness),
    )
