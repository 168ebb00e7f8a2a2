"""What a form sends: fields by name, decoded, and nothing a database cannot keep."""

from collections.abc import Mapping
from urllib.parse import parse_qs

from fastapi import Request

from headwater.errors import UsageError

_MOST_FIELDS = 2000


async def fields_of(request: Request) -> Mapping[str, list[str]]:
    """All fields of a form that was sent as a browser does without script."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise UsageError("a form is sent as application/x-www-form-urlencoded")
    body = await request.body()
    try:
        fields = parse_qs(
            body.decode("utf-8"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError as error:
        raise UsageError("the form cannot be read") from error
    if any("\0" in value for values in fields.values() for value in values):
        raise UsageError("the form has characters that cannot be kept")
    return fields


def one(fields: Mapping[str, list[str]], name: str) -> str:
    """A field's only value, without blanks around it; empty if it was not sent."""
    values = fields.get(name, [])
    return values[-1].strip() if values else ""
