"""Suggestions: changes to the settings of a source that are proposed to its owner."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class SuggestionKind(StrEnum):
    """What a suggestion proposes."""

    IGNORE = "ignore"  # lines of a page that change with every version (W6)
    MOVE = "move"  # another URL, which the current one redirects to (Y4)
    FEED = "feed"  # another URL, found on the site of a lost feed (Y5)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change to the settings of a source that is proposed to its owner."""

    id: str  # unique within its source
    kind: SuggestionKind
    detail: Mapping[str, Any]  # what its kind needs, as JSON
    created_at: datetime
    accepted_at: datetime | None = None  # None: it is open
    previous_url: str | None = None  # of the source, before it was accepted


@dataclass(frozen=True, slots=True)
class Redirect:
    """A permanent redirect that the last successful polls of a source followed (Y4)."""

    url: str  # where it leads, with credentials if they apply there
    since: datetime  # the first poll that followed it
    polls: int  # that followed it; 0: it leads to something else, and is never suggested
    is_suggested: bool = False
