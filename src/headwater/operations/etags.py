"""ETags of sources and podcasts, and the check of `If-Match`.

An ETag covers the settings only: it changes when a person edits them, or when failures disable a
source, and does not change when a poll runs. So an edit is not refused because of a poll.
"""

import hashlib
import json
from dataclasses import fields
from typing import TypeVar

from headwater.errors import Outdated
from headwater.model import Podcast, Source
from headwater.source_settings import SETTINGS
from headwater.store.row_mapping import encoded, row_of

Edited = TypeVar("Edited", Source, Podcast)
_LENGTH = 24  # hexadecimal digits


def etag_of(edited: Source | Podcast) -> str:
    """The ETag of the settings, in quotes."""
    if isinstance(edited, Source):
        settings = row_of(edited, SETTINGS)
    else:
        settings = {one.name: encoded(getattr(edited, one.name)) for one in fields(edited)}
    text = json.dumps([edited.id, settings], sort_keys=True)
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]}"'


def matching(if_match: str | None, edited: Edited) -> Edited:
    """The same object if its ETag is one of those in `If-Match`; else Outdated.

    None and `*` match everything. The prefix `W/`, which proxies add when they compress a
    response, is ignored.
    """
    if if_match is None or if_match.strip() == "*":
        return edited
    tags = {tag.strip().removeprefix("W/") for tag in if_match.split(",")}
    if etag_of(edited) not in tags:
        raise Outdated("this has changed since it was read: its ETag is not the one in `If-Match`")
    return edited
