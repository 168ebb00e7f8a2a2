"""Reads forms: URL-encoded fields, and multipart bodies with a file (RFC 7578)."""

import re
from collections.abc import Mapping
from urllib.parse import parse_qs

from fastapi import Request

from headwater.errors import UsageError

_MAX_FIELDS = 2000
MAX_PARTS = 20
_MAX_HEAD = 4096
_BOUNDARY = re.compile(
    r'multipart/form-data;.*?boundary="?([0-9A-Za-z\'()+_,./:=? -]{1,70})"?\s*$', re.I
)
_NAME = re.compile(rb'(?i)content-disposition:[^\r\n]*?;\s*name="([^"\r\n]*)"')


async def fields_of(request: Request) -> Mapping[str, list[str]]:
    """Return the fields of a URL-encoded form, by name."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise UsageError("a form is sent as application/x-www-form-urlencoded")
    body = await request.body()
    try:
        fields = parse_qs(
            body.decode("utf-8"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MAX_FIELDS,
        )
    except ValueError as error:
        raise UsageError("the form cannot be read") from error
    if any("\0" in value for values in fields.values() for value in values):
        raise UsageError("the form has characters that cannot be stored")
    return fields


def one(fields: Mapping[str, list[str]], name: str) -> str:
    """Return the last value of a field without surrounding blanks; empty if it was not sent."""
    values = fields.get(name, [])
    return values[-1].strip() if values else ""


async def parts_of(request: Request) -> Mapping[str, bytes]:
    """Return the parts of a multipart form by name; the last one wins if a name is repeated."""
    found = _BOUNDARY.match(request.headers.get("content-type", ""))
    if found is None:
        raise UsageError("a form with a file is sent as multipart/form-data")
    delimiter = b"\r\n--" + found[1].strip().encode("ascii")
    # ignore what is before the first delimiter and after the last (RFC 2046)
    pieces = (b"\r\n" + await request.body()).split(delimiter, MAX_PARTS + 1)[1:]
    if not 0 < len(pieces) <= MAX_PARTS or not pieces[-1].startswith(b"--"):
        raise UsageError("the form cannot be read")
    return dict(_part(piece) for piece in pieces[:-1])


def _part(piece: bytes) -> tuple[str, bytes]:
    end = piece.find(b"\r\n\r\n", 0, _MAX_HEAD)
    named = _NAME.search(piece[:end]) if end >= 0 else None
    if named is None:
        raise UsageError("the form cannot be read")
    return named[1].decode("utf-8", "replace"), piece[end + 4 :]
