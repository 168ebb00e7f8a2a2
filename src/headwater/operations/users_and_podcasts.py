"""Users, podcasts and API keys."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from headwater.errors import KeyRetired, UsageError, WouldDelete
from headwater.model import PODCAST_SETTINGS, Podcast, User
from headwater.operations.etags import matching
from headwater.operations.filters import (
    FILTERS,
    apply_changed_filters,
    changes_filters,
    check_filter,
)
from headwater.operations.sources import Pollable, remove_all_sources
from headwater.rules.admission import article_age
from headwater.rules.policy import Policy
from headwater.source_settings import SettingValues
from headwater.store import Session, Store
from headwater.store.audit import describe
from headwater.store.expiry import ExpiringCounts, would_delete
from headwater.store.sources import SourceFilter

if TYPE_CHECKING:  # imports cryptography, which few commands need
    from headwater.vault import Vault

PROVIDERS = ("x",)
MAX_AGE_DAYS = PODCAST_SETTINGS["max_article_age_days"].maximum
DEFAULT = "default"  # the user and the podcast that every database starts with
_MAX_NAME = 200


async def add_user(store: Store, name: str, now: datetime) -> User:
    """Store a new user."""
    user = User(id=str(uuid.uuid4()), name=_name_for_paths(name), created_at=now)
    describe("user.add", f"user {user.id}", name=user.name)
    await store.accounts.add_user(user)
    return user


async def rename_user(store: Store, user: User, name: str) -> User:
    """Rename a user."""
    renamed = replace(user, name=_name_for_paths(name, before=user.name))
    describe("user.rename", f"user {user.id}", before=user.name, name=renamed.name)
    await store.accounts.rename_user(renamed)
    return renamed


async def remove_user(store: Store, user: User) -> None:
    """Delete a user with all podcasts, sources and keys; `default` cannot be deleted."""
    if user.id == DEFAULT:
        raise UsageError("the user 'default' cannot be removed: every database has it", field="id")
    describe("user.remove", f"user {user.id}", name=user.name)
    for podcast in await store.accounts.podcasts(user.id):
        await remove_all_sources(store, podcast.id)
    await store.accounts.remove_user(user.id)


async def remove_podcast(store: Store, podcast: Podcast, *, if_match: str | None = None) -> None:
    """Delete a podcast with its sources; `default` cannot be deleted.

    Raises Outdated, before anything is deleted, if the stored podcast does not match `if_match`.
    With sources, which may be too many for one transaction, an earlier one compares the ETag:
    a concurrent edit may succeed after it, but the podcast is deleted.
    """
    if podcast.id == DEFAULT:
        raise UsageError(
            "the podcast 'default' cannot be removed: every database has it", field="id"
        )
    describe("podcast.remove", f"podcast {podcast.id}", name=podcast.name, user=podcast.user_id)
    check = None if if_match is None else partial(matching, if_match)
    if await store.sources.positions(SourceFilter(podcast_id=podcast.id), limit=1):
        if check is not None:
            await store.accounts.edit_podcast(podcast.id, check)
        await remove_all_sources(store, podcast.id)
        check = None
    await store.accounts.remove_podcast(podcast.id, check=check)


async def add_podcast(
    store: Store, user: User, name: str, now: datetime, **settings: Any
) -> Podcast:
    """Store a new podcast of a user."""
    podcast = new_podcast(user, name, now, settings)
    describe("podcast.add", f"podcast {podcast.id}", name=podcast.name, user=user.id)
    await store.accounts.save_podcast(podcast)
    return podcast


def new_podcast(user: User, name: str, now: datetime, settings: SettingValues) -> Podcast:
    """A podcast with these settings, or a UsageError that names the wrong field."""
    _check_settings(settings)
    return Podcast(str(uuid.uuid4()), user.id, _name_for_paths(name), now, **settings)


def podcast_edited_as(changes: SettingValues, before: Podcast) -> Podcast:
    """The podcast with these changes, or a UsageError that names the wrong field."""
    _check_settings({k: v for k, v in changes.items() if v != getattr(before, k)})
    if "name" in changes:
        changes = {**changes, "name": _name_for_paths(changes["name"], before=before.name)}
    return replace(before, **changes)


def _check_settings(settings: SettingValues) -> None:
    if "max_article_age_days" in settings:
        _days(settings["max_article_age_days"])
    for name in FILTERS & settings.keys():
        if settings[name] is not None:
            check_filter(settings[name], name)


@dataclass(frozen=True, slots=True)
class DeletionCheck:
    """Counts what a lower age limit deletes at once, and refuses it (E5)."""

    now: datetime
    policy: Policy

    def __call__(self, session: Session, before: Podcast, after: Podcast) -> None:
        """Raise WouldDelete with the numbers of articles and posts."""
        self.refuse(session, [(before, after)])

    def refuse(self, session: Session, changes: Sequence[tuple[Podcast, Podcast]]) -> None:
        """The same for several podcasts, each before and after, with the numbers of all."""
        counts = self.counts(session, changes)
        if counts.articles or counts.posts:
            raise WouldDelete(counts.articles, counts.posts)

    def counts(
        self, session: Session, changes: Sequence[tuple[Podcast, Podcast]]
    ) -> ExpiringCounts:
        """What these changes delete at once."""
        articles = posts = 0
        for before, after in changes:
            ages = [article_age(one.max_article_age_days, self.policy) for one in (before, after)]
            if ages[1] < ages[0]:
                found = would_delete(session, before.id, self.now, before=ages[0], after=ages[1])
                articles, posts = articles + found.articles, posts + found.posts
        return ExpiringCounts(articles, posts)


async def edit_podcast(
    store: Store,
    podcast: Podcast,
    now: datetime,
    *,
    if_match: str | None = None,
    check: DeletionCheck | None = None,
    **changes: Any,
) -> Podcast:
    """Change the given fields of a podcast; an age limit of None is the default.

    Raises Outdated if the stored podcast does not match `if_match`. Without `check`, a change that
    deletes something at once is confirmed.
    """

    def change(before: Podcast) -> Podcast:
        return podcast_edited_as(changes, matching(if_match, before))

    differing = {
        name: "default" if value is None else "changed" if name in FILTERS else value
        for name, value in changes.items()
        if value != getattr(podcast, name)
    }
    describe("podcast.edit", f"podcast {podcast.id}", **differing)
    edited = await store.accounts.edit_podcast(podcast.id, change, check)
    if changes_filters(changes):
        await apply_changed_filters(store, now)
    return edited


@dataclass(frozen=True, slots=True)
class KeyChange:
    """The result of storing a key."""

    provider: str
    sources_requested: int  # sources that waited for the key


async def set_key(
    store: Store,
    vault: "Vault",
    user: User,
    provider: str,
    secret: str,
    now: datetime,
    *,
    pollable: Pollable | None = None,
) -> KeyChange:
    """Encrypt and store a user's API key; sources that waited for it are requested (S9, U5).

    Only `pollable` ones are; the others are polled when they are due (Y8).
    """
    if provider not in PROVIDERS:
        known = ", ".join(PROVIDERS)
        raise UsageError(f"there is no provider {provider!r}; known: {known}", field="provider")
    secret = secret.strip()
    if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise UsageError("an API key is one word of visible ASCII characters", field="apiKey")

    skipped = set[str]()
    if pollable is not None:
        waiting = await store.api_keys.waiting_sources(user.id, provider)
        skipped = set(waiting).difference(pollable(waiting))
    describe("key.set", f"user {user.id}", provider=provider)

    async def stored() -> KeyChange:
        sealed = vault.seal(secret, user_id=user.id, provider=provider)
        count = await store.api_keys.set(user.id, provider, sealed, now, skipped)
        return KeyChange(provider, count)

    try:
        return await stored()
    except KeyRetired:  # the master key was rotated since it was read (U5)
        vault.reread()
        return await stored()


async def remove_key(store: Store, user: User, provider: str) -> None:
    """Delete a user's API key."""
    describe("key.remove", f"user {user.id}", provider=provider)
    await store.api_keys.remove(user.id, provider)


async def key_of(
    store: Store, vault: Callable[[], "Vault"], user_id: str, provider: str
) -> str | None:
    """A user's decrypted API key; None, without opening the vault, if there is none."""
    sealed = await store.api_keys.get(user_id, provider)
    return None if sealed is None else vault().open(sealed, user_id=user_id, provider=provider)


def one_line_name(name: str) -> str:
    """The name without surrounding blanks, or a UsageError."""
    name = name.strip()
    if not name or len(name) > _MAX_NAME or not name.isprintable():
        raise UsageError(f"a name is one line of 1 to {_MAX_NAME} characters", field="name")
    return name


def _name_for_paths(name: str, *, before: str | None = None) -> str:
    """A name that can be part of a URL path; the name `before` is accepted as it is."""
    name = one_line_name(name)
    if name != before and ("/" in name or name in (".", "..")):
        reason = "a name is part of URLs, so it has no slash and is not just dots"
        raise UsageError(reason, field="name")
    return name


def _days(days: int | None) -> int | None:
    if days is not None and not 1 <= days <= MAX_AGE_DAYS:
        reason = f"maxArticleAgeDays must be between 1 and {MAX_AGE_DAYS:,}"
        raise UsageError(reason, field="maxArticleAgeDays")
    return days
