"""Who requests a page, for which podcast, and the navigation (U2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from fastapi import Request

from headwater.api.middleware.authentication import caller_of
from headwater.errors import NotFound
from headwater.model import Podcast, Source, TokenScope, User
from headwater.store import Store

_SECTIONS = {"add": "sources", "import": "sources", "webhooks": "accounts", "users": "accounts"}
# pages that every podcast has
_PODCAST_PAGES = frozenset({"posts", "articles", "filters", "webhooks", "add", "import"})
_MAX_PODCASTS = 200  # podcasts in the menu; more are found under Accounts


@dataclass(frozen=True, slots=True)
class PageContext:
    """The user, the podcast of the page, and the podcasts they may see."""

    is_admin: bool
    user: User | None  # None: an administrator
    podcasts: Sequence[Podcast]
    podcast: Podcast | None = None  # of the page
    has_session: bool = False  # a browser that logged in, and can log out
    read_only: bool = False  # by the scope of the token


async def page_context(
    store: Store, request: Request, podcast_id: str | None = None
) -> PageContext:
    """Return the context of a request; NotFound for a podcast of another user."""
    caller = caller_of(request)
    user = None if caller.user_id is None else await store.accounts.user(caller.user_id)
    podcasts = await store.accounts.podcasts(caller.user_id, limit=_MAX_PODCASTS)
    chosen = None
    if podcast_id is not None:
        chosen = await store.accounts.podcast_with(podcast_id)
        if user is not None and chosen.user_id != user.id:
            raise NotFound(f"there is no podcast {podcast_id!r}")  # as if it did not exist (U2)
    read_only = caller.scope is TokenScope.READ
    return PageContext(user is None, user, podcasts, chosen, caller.in_session, read_only)


async def source_at(store: Store, podcast: Podcast, source_id: str) -> Source:
    """Return a source of the page's podcast."""
    subject = await store.sources.subject(source_id)
    if subject is None or subject.source.podcast_id != podcast.id:
        raise NotFound(f"there is no source {source_id}")
    return subject.source


@dataclass(frozen=True, slots=True)
class Navigation:
    """The navigation of a page."""

    screens: Sequence[tuple[str, str, str | None]]  # name, URL and value of aria-current
    base: str | None  # URL of the podcast; None: there is none
    part: str  # the page of a podcast to show for another one


def navigation_at(context: PageContext, path: str, last_podcast: str) -> Navigation:
    """Return the navigation of a page; one without a podcast links to the last podcast."""
    last = (podcast for podcast in context.podcasts if podcast.id == last_podcast)
    podcast = context.podcast or next(last, None) or next(iter(context.podcasts), None)
    base = None if podcast is None else f"/podcasts/{quote(podcast.id, safe='')}"
    pieces = [*path.strip("/").split("/"), "", ""]
    part = pieces[2] if pieces[0] == "podcasts" else pieces[0] or "overview"
    section = _SECTIONS.get(part, part)
    known = [("Overview", "/"), ("Sites", "/hosts"), ("Accounts", "/accounts")]
    if base is not None:
        known[1:1] = [(name, f"{base}/{name.lower()}") for name in ("Sources", "Posts", "Articles")]
    current = "page" if path in [url for _, url in known] else "true"
    screens = [
        (name, url, current if section == (url.rpartition("/")[2] or "overview") else None)
        for name, url in known
    ]
    return Navigation(screens, base, part if part in _PODCAST_PAGES else "sources")
