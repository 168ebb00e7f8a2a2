"""Whose things a request is about: every id is looked up as its owner's, or not found (U2)."""

from typing import Annotated

from fastapi import Path, Request

from headwater.api.callers import caller_of
from headwater.errors import NotFound
from headwater.model import Podcast, Source, User
from headwater.store import Store

UserName = Annotated[str, Path(alias="u", max_length=200, description="A user's id or name.")]
PodcastName = Annotated[str, Path(alias="p", max_length=200, description="A podcast's id or name.")]
SourceId = Annotated[str, Path(alias="s", max_length=200, description="A source's id.")]


async def the_user(store: Store, request: Request, user_name: str) -> User:
    """The user with this id or name, if the caller may know of them."""
    caller = caller_of(request)
    if caller.user_id is None:
        return await store.people.user(user_name)
    own = await store.people.user(caller.user_id)
    if user_name not in (own.id, own.name):
        raise NotFound(f"there is no user {user_name!r}")
    return own


async def the_podcast(store: Store, request: Request, user_name: str, podcast_name: str) -> Podcast:
    """A user's podcast, if the caller may know of it."""
    user = await the_user(store, request, user_name)
    return await store.people.podcast(user.id, podcast_name)


async def the_source(
    store: Store, request: Request, user_name: str, podcast_name: str, source_id: str
) -> Source:
    """A podcast's source, if the caller may know of it."""
    podcast = await the_podcast(store, request, user_name, podcast_name)
    subject = await store.sources.subject(source_id)
    if subject is None or subject.source.podcast_id != podcast.id:
        raise NotFound(f"there is no source {source_id}")
    return subject.source
