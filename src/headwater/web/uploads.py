"""What a form with a file sends: parts by name, as bytes (RFC 7578)."""

import re
from collections.abc import Mapping

from fastapi import Request

from headwater.errors import UsageError

_MOST_PARTS = 20
_LONGEST_HEAD = 4096
_BOUNDARY = re.compile(
    r'multipart/form-data;.*?boundary="?([0-9A-Za-z\'()+_,./:=? -]{1,70})"?\s*$', re.I
)
_NAME = re.compile(rb'(?i)content-disposition:[^\r\n]*?;\s*name="([^"\r\n]*)"')


async def parts_of(request: Request) -> Mapping[str, bytes]:
    """The parts of a form by name, the last one where a name stands twice."""
    found = _BOUNDARY.match(request.headers.get("content-type", ""))
    if found is None:
        raise UsageError("a form with a file is sent as multipart/form-data")
    delimiter = b"\r\n--" + found[1].strip().encode("ascii")
    # what stands before the first delimiter and after the last is nobody's (RFC 2046)
    pieces = (b"\r\n" + await request.body()).split(delimiter, _MOST_PARTS + 1)[1:]
    if not 0 < len(pieces) <= _MOST_PARTS or not pieces[-1].startswith(b"--"):
        raise UsageError("the form cannot be read")
    return dict(_part(piece) for piece in pieces[:-1])


def _part(piece: bytes) -> tuple[str, bytes]:
    end = piece.find(b"\r\n\r\n", 0, _LONGEST_HEAD)
    named = _NAME.search(piece[:end]) if end >= 0 else None
    if named is None:
        raise UsageError("the form cannot be read")
    return named[1].decode("utf-8", "replace"), piece[end + 4 :]
