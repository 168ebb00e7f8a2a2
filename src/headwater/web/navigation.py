"""The way between screens: which there are for somebody, and on which one they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from headwater.web.place import Place

_OF_SOURCES = frozenset({"sources", "add", "import"})
_KEPT = frozenset({"posts", "articles", "add", "import"})  # also there for another podcast


@dataclass(frozen=True, slots=True)
class Screen:
    """A place in the navigation."""

    name: str
    icon: str
    url: str
    current: str | None = None  # as aria-current says it


@dataclass(frozen=True, slots=True)
class Navigation:
    """Where somebody can go from a page."""

    screens: Sequence[Screen]
    base: str | None  # the address of the podcast that is looked at; None: there is none
    part: str  # of a podcast, that is looked at or would be for another one

    def of_podcast(self, podcast_id: str) -> str:
        """The same screen of another podcast."""
        return f"/podcasts/{quote(podcast_id, safe='')}/{self.part}"


def navigation_at(place: Place, path: str, last_podcast: str | None = None) -> Navigation:
    """The navigation of a page; one that is of no podcast leads back to the last one."""
    last = (podcast for podcast in place.podcasts if podcast.id == last_podcast)
    podcast = place.podcast or next(last, None) or next(iter(place.podcasts), None)
    base = None if podcast is None else f"/podcasts/{quote(podcast.id, safe='')}"
    part = _part(path.strip("/").split("/"))
    section = "sources" if part in _OF_SOURCES else part
    known = [("Overview", "/"), ("Hosts", "/hosts"), ("Accounts", "/accounts")]
    if base is not None:
        known[1:1] = [(name, f"{base}/{name.lower()}") for name in ("Sources", "Posts", "Articles")]
    screens = [
        Screen(name, name.lower(), url, _current(url, path, is_here=section == name.lower()))
        for name, url in known
    ]
    return Navigation(screens, base, part if part in _KEPT else "sources")


def _part(pieces: Sequence[str]) -> str:
    """The part of the dashboard that an address belongs to."""
    if pieces[0] == "podcasts":
        return pieces[2] if len(pieces) > 2 else ""
    return pieces[0] or "overview"


def _current(url: str, path: str, *, is_here: bool) -> str | None:
    if not is_here:
        return None
    return "page" if url == path else "true"
