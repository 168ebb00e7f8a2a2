"""Where a page stands: who looks, at which podcast, and what else there is to look at (U2)."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Request

from headwater.api.callers import caller_of
from headwater.errors import NotFound
from headwater.model import Podcast, Source, User
from headwater.store import Store

_MOST_LISTED = 200  # podcasts in the menu; more are found under Accounts


@dataclass(frozen=True, slots=True)
class Place:
    """Who looks, and what they can go to."""

    is_admin: bool
    user: User | None  # None: an administrator
    podcasts: Sequence[Podcast]
    podcast: Podcast | None = None  # the one that is looked at
    has_session: bool = False  # a browser that logged in, and so can log out


async def place_of(store: Store, request: Request, podcast_id: str | None = None) -> Place:
    """Where a page stands; a podcast of somebody else is not found."""
    caller = caller_of(request)
    user = None if caller.user_id is None else await store.people.user(caller.user_id)
    podcasts = await podcasts_of(store, user)
    chosen = None
    if podcast_id is not None:
        chosen = await store.people.podcast_with(podcast_id)
        if user is not None and chosen.user_id != user.id:
            raise NotFound(f"there is no podcast {podcast_id!r}")  # as if nobody had it (U2)
    return Place(user is None, user, podcasts, chosen, caller.in_session)


async def podcasts_of(store: Store, user: User | None) -> Sequence[Podcast]:
    """The podcasts that somebody may see: their own, or for an administrator everybody's."""
    if user is None:
        return await store.people.first_podcasts(_MOST_LISTED)
    return await store.people.podcasts_page(user.id, _MOST_LISTED)


async def source_at(store: Store, place: Place, source_id: str) -> Source:
    """A source of the podcast that is looked at."""
    subject = await store.sources.subject(source_id)
    if subject is None or place.podcast is None or subject.source.podcast_id != place.podcast.id:
        raise NotFound(f"there is no source {source_id}")
    return subject.source
