"""Users, podcasts and API keys."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from headwater.errors import KeyRetired, UsageError
from headwater.model import Podcast, User
from headwater.operations.removals import remove_all_sources
from headwater.store import Store
from headwater.vault import Vault

PROVIDERS = ("x",)
MAX_AGE_DAYS = 100_000
DEFAULT = "default"  # the user and the podcast that every database starts with
_MAX_NAME = 200


async def add_user(store: Store, name: str, now: datetime) -> User:
    """Store a new user."""
    user = User(id=str(uuid.uuid4()), name=_name_for_paths(name), created_at=now)
    await store.people.add_user(user)
    return user


async def rename_user(store: Store, user: User, name: str) -> User:
    """Give a user another name."""
    renamed = replace(user, name=_name_for_paths(name, before=user.name))
    await store.people.rename_user(renamed)
    return renamed


async def remove_user(store: Store, user: User) -> None:
    """Delete a user and all that belongs to them; `default` stays, everything starts from it."""
    if user.id == DEFAULT:
        raise UsageError("the user 'default' cannot be removed: every database has it", field="id")
    for podcast in await store.people.podcasts(user.id):
        await remove_all_sources(store, podcast.id)
    await store.people.remove_user(user.id)


async def remove_podcast(store: Store, podcast: Podcast) -> None:
    """Delete a podcast and all that belongs to it; `default` stays."""
    if podcast.id == DEFAULT:
        told = "the podcast 'default' cannot be removed: every database has it"
        raise UsageError(told, field="id")
    await remove_all_sources(store, podcast.id)
    await store.people.remove_podcast(podcast.id)


async def add_podcast(
    store: Store,
    user: User,
    name: str,
    now: datetime,
    *,
    max_article_age_days: int | None = None,
    dedupe_across_sources: bool = False,
) -> Podcast:
    """Store a new podcast of a user."""
    podcast = Podcast(
        id=str(uuid.uuid4()),
        user_id=user.id,
        name=_name_for_paths(name),
        created_at=now,
        max_article_age_days=_days(max_article_age_days),
        dedupe_across_sources=dedupe_across_sources,
    )
    await store.people.save_podcast(podcast)
    return podcast


async def edit_podcast(
    store: Store,
    podcast: Podcast,
    *,
    name: str | None = None,
    max_article_age_days: int | None = None,
    default_article_age: bool = False,
    dedupe_across_sources: bool | None = None,
) -> Podcast:
    """Change what is given of a podcast; `default_article_age` takes its own age limit back."""
    own_age = None if default_article_age else podcast.max_article_age_days
    changed = replace(
        podcast,
        name=podcast.name if name is None else _name_for_paths(name, before=podcast.name),
        max_article_age_days=own_age
        if max_article_age_days is None
        else _days(max_article_age_days),
        dedupe_across_sources=podcast.dedupe_across_sources
        if dedupe_across_sources is None
        else dedupe_across_sources,
    )
    await store.people.change_podcast(changed)
    return changed


@dataclass(frozen=True, slots=True)
class KeyChange:
    """What came of storing a key."""

    provider: str
    sources_requested: int  # those that waited for it


async def set_key(
    store: Store, vault: Vault, user: User, provider: str, secret: str, now: datetime
) -> KeyChange:
    """Seal and store a user's API key; sources that waited for it become due (S9, U5)."""
    if provider not in PROVIDERS:
        known = ", ".join(PROVIDERS)
        raise UsageError(f"there is no provider {provider!r}; known: {known}", field="provider")
    secret = secret.strip()
    if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise UsageError("an API key is one word of visible ASCII characters", field="apiKey")

    async def stored() -> KeyChange:
        sealed = vault.seal(secret, user_id=user.id, provider=provider)
        return KeyChange(provider, await store.people.set_key(user.id, provider, sealed, now))

    try:
        return await stored()
    except KeyRetired:  # the master key was rotated since we read it (U5)
        vault.reread()
        return await stored()


async def key_of(
    store: Store, vault: Callable[[], Vault], user_id: str, provider: str
) -> str | None:
    """A user's API key in the clear, for a fetch; None, and no vault opened, if they have none."""
    sealed = await store.people.key(user_id, provider)
    return None if sealed is None else vault().open(sealed, user_id=user_id, provider=provider)


async def remove_key(store: Store, user: User, provider: str) -> None:
    """Forget a user's API key."""
    await store.people.remove_key(user.id, provider)


async def providers_of(store: Store, user: User, *, after: str = "") -> Sequence[str]:
    """For which providers, by name, a user has stored a key; those behind `after`."""
    return [name for name in await store.people.key_providers(user.id) if name > after]


def one_line_name(name: str) -> str:
    """A name without blanks around it, or a UsageError."""
    name = name.strip()
    if not name or len(name) > _MAX_NAME or not name.isprintable():
        raise UsageError(f"a name is one line of 1 to {_MAX_NAME} characters", field="name")
    return name


def _name_for_paths(name: str, *, before: str | None = None) -> str:
    """A name that can stand in an address; one that is there already stays as it is."""
    name = one_line_name(name)
    if name != before and ("/" in name or name in (".", "..")):
        told = "a name stands in addresses, so it has no slash and is not just dots"
        raise UsageError(told, field="name")
    return name


def _days(days: int | None) -> int | None:
    if days is not None and not 1 <= days <= MAX_AGE_DAYS:
        told = f"maxArticleAgeDays must be between 1 and {MAX_AGE_DAYS:,}"
        raise UsageError(told, field="maxArticleAgeDays")
    return days
