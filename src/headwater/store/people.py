"""People: users, their podcasts and their sealed API keys."""

from collections.abc import Sequence
from datetime import datetime

from headwater.errors import NotFound, UsageError
from headwater.model import Podcast, SealedSecret, User
from headwater.store import marks
from headwater.store.database import Database, Session
from headwater.store.rows import podcast_from, to_ms, user_from
from headwater.store.secrets import refuse_retired

_PODCAST = "id, user_id, name, created_at, max_article_age_days, dedupe_across_sources"


class People:
    """The tables of users, podcasts and keys."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def users(self) -> Sequence[User]:
        """All users, oldest first."""
        sql = "SELECT id, name, created_at FROM users ORDER BY created_at, id"
        return [user_from(row) for row in await self._database.read(lambda s: s.fetch(sql))]

    async def users_page(
        self, limit: int, *, after: tuple[object, ...] | None = None, only: str | None = None
    ) -> Sequence[User]:
        """Users, oldest first; `after` continues behind a moment and an id, `only` is one's id."""
        named = {"id = :only": only, "(created_at, id) > (:at, :id)": after}
        where = " AND ".join(sql for sql, value in named.items() if value is not None) or "TRUE"
        at, id_ = after or (None, None)
        params = {"limit": limit, "only": only, "at": at, "id": id_}
        sql = f"""SELECT id, name, created_at FROM users WHERE {where}
            ORDER BY created_at, id LIMIT :limit"""
        rows = await self._database.read(lambda s: s.fetch(sql, params))
        return [user_from(row) for row in rows]

    async def user(self, name_or_id: str) -> User:
        """The user with this id or name."""
        return await self._database.glance(lambda s: _user(s, name_or_id))

    async def add_user(self, user: User) -> None:
        """Store a new user."""
        await self._database.write(lambda s: _add_user(s, user))

    async def rename_user(self, user: User) -> None:
        """Store a user's new name."""
        await self._database.write(lambda s: _rename_user(s, user))

    async def remove_user(self, user_id: str) -> None:
        """Delete a user and all that belongs to them."""
        sql = "DELETE FROM users WHERE id = :id"
        await self._database.write(lambda s: s.execute(sql, {"id": user_id}))

    async def podcasts(self, user_id: str) -> Sequence[Podcast]:
        """A user's podcasts, oldest first."""
        sql = f"SELECT {_PODCAST} FROM podcasts WHERE user_id = :user ORDER BY created_at, id"
        rows = await self._database.read(lambda s: s.fetch(sql, {"user": user_id}))
        return [podcast_from(row) for row in rows]

    async def podcasts_page(
        self, user_id: str, limit: int, *, after: tuple[object, ...] | None = None
    ) -> Sequence[Podcast]:
        """A user's podcasts, oldest first; `after` continues behind a moment and an id."""
        behind = "" if after is None else " AND (created_at, id) > (:at, :id)"
        at, id_ = after or (None, None)
        params = {"user": user_id, "limit": limit, "at": at, "id": id_}
        sql = f"""SELECT {_PODCAST} FROM podcasts WHERE user_id = :user{behind}
            ORDER BY created_at, id LIMIT :limit"""
        rows = await self._database.read(lambda s: s.fetch(sql, params))
        return [podcast_from(row) for row in rows]

    async def first_podcasts(self, limit: int) -> Sequence[Podcast]:
        """The oldest podcasts of all users."""
        sql = f"SELECT {_PODCAST} FROM podcasts ORDER BY created_at, id LIMIT :limit"
        rows = await self._database.read(lambda s: s.fetch(sql, {"limit": limit}))
        return [podcast_from(row) for row in rows]

    async def podcast(self, user_id: str, name_or_id: str) -> Podcast:
        """A user's podcast with this id or name."""
        return await self._database.glance(lambda s: _podcast(s, user_id, name_or_id))

    async def podcast_of(
        self, user_name: str, podcast_name: str, *, only: str | None = None
    ) -> Podcast:
        """A podcast by its user's id or name and its own; `only`: the one user that exists (U2)."""
        return await self._database.glance(lambda s: _podcast_of(s, user_name, podcast_name, only))

    async def podcast_with(self, podcast_id: str) -> Podcast:
        """The podcast with this id, whoever owns it."""
        sql = f"SELECT {_PODCAST} FROM podcasts WHERE id = :id"
        rows = await self._database.read(lambda s: s.fetch(sql, {"id": podcast_id}))
        if not rows:
            raise NotFound(f"there is no podcast {podcast_id!r}")
        return podcast_from(rows[0])

    async def save_podcast(self, podcast: Podcast) -> None:
        """Store a podcast, new or changed."""
        await self._database.write(lambda s: _save_podcast(s, podcast))

    async def change_podcast(self, podcast: Podcast) -> None:
        """Store what changed of a podcast that is there."""
        await self._database.write(lambda s: _change_podcast(s, podcast))

    async def remove_podcast(self, podcast_id: str) -> None:
        """Delete a podcast and all that belongs to it."""
        sql = "DELETE FROM podcasts WHERE id = :id"
        if not await self._database.write(lambda s: s.execute(sql, {"id": podcast_id})):
            raise NotFound(f"there is no podcast {podcast_id!r}")

    async def set_key(
        self, user_id: str, provider: str, sealed: SealedSecret, now: datetime
    ) -> int:
        """Store a user's sealed key instead of an older one; answer how many sources waited.

        Those become due at once (S9): X sources that fail, or have never succeeded.
        """
        return await self._database.write(lambda s: _set_key(s, user_id, provider, sealed, now))

    async def key(self, user_id: str, provider: str) -> SealedSecret | None:
        """A user's sealed key for a provider, if there is one."""
        sql = """SELECT key_id, nonce, ciphertext FROM api_keys
            WHERE user_id = :user AND provider = :provider"""
        params = {"user": user_id, "provider": provider}
        rows = await self._database.read(lambda s: s.fetch(sql, params))
        return SealedSecret(rows[0][0], bytes(rows[0][1]), bytes(rows[0][2])) if rows else None

    async def key_providers(self, user_id: str) -> Sequence[str]:
        """For which providers a user has a key."""
        sql = "SELECT provider FROM api_keys WHERE user_id = :user ORDER BY provider"
        rows = await self._database.read(lambda s: s.fetch(sql, {"user": user_id}))
        return [row[0] for row in rows]

    async def remove_key(self, user_id: str, provider: str) -> None:
        """Forget a user's key for a provider."""
        sql = "DELETE FROM api_keys WHERE user_id = :user AND provider = :provider"
        params = {"user": user_id, "provider": provider}
        if not await self._database.write(lambda s: s.execute(sql, params)):
            raise NotFound(f"there is no key for {provider}")


def _user(session: Session, name_or_id: str) -> User:
    sql = """SELECT id, name, created_at FROM users WHERE id = :name OR name = :name
        ORDER BY CASE WHEN id = :name THEN 0 ELSE 1 END"""
    rows = session.fetch(sql, {"name": name_or_id})
    if not rows:
        raise NotFound(f"there is no user {name_or_id!r}")
    return user_from(rows[0])


def _add_user(session: Session, user: User) -> None:
    _refuse_taken(session, user)
    session.execute(
        "INSERT INTO users (id, name, created_at) VALUES (:id, :name, :now)",
        {"id": user.id, "name": user.name, "now": to_ms(user.created_at)},
    )


def _rename_user(session: Session, user: User) -> None:
    _refuse_taken(session, user)
    sql = "UPDATE users SET name = :name WHERE id = :id"
    if not session.execute(sql, {"id": user.id, "name": user.name}):
        raise NotFound(f"there is no user {user.id!r}")


def _refuse_taken(session: Session, user: User) -> None:
    sql = "SELECT id FROM users WHERE name = :name AND id <> :id"
    if session.fetch(sql, {"name": user.name, "id": user.id}):
        raise UsageError(f"there is a user {user.name!r} already", field="name")


def _podcast_of(session: Session, user_name: str, podcast_name: str, only: str | None) -> Podcast:
    user = _user(session, user_name if only is None else only)
    if only is not None and user_name not in (user.id, user.name):
        raise NotFound(f"there is no user {user_name!r}")
    return _podcast(session, user.id, podcast_name)


def _podcast(session: Session, user_id: str, name_or_id: str) -> Podcast:
    sql = f"""SELECT {_PODCAST} FROM podcasts
        WHERE user_id = :user AND (id = :name OR name = :name)
        ORDER BY CASE WHEN id = :name THEN 0 ELSE 1 END"""
    rows = session.fetch(sql, {"user": user_id, "name": name_or_id})
    if not rows:
        raise NotFound(f"there is no podcast {name_or_id!r}")
    return podcast_from(rows[0])


def _save_podcast(session: Session, podcast: Podcast) -> None:
    params = _podcast_row(podcast)
    lock = " FOR KEY SHARE" if session.kind == "postgres" else ""
    if not session.fetch(f"SELECT id FROM users WHERE id = :user{lock}", params):
        raise NotFound(f"there is no user {podcast.user_id!r}")
    _refuse_taken_podcast(session, podcast)
    session.execute(
        """INSERT INTO podcasts (id, user_id, name, created_at, max_article_age_days,
            dedupe_across_sources)
        VALUES (:id, :user, :name, :now, :days, :dedupe)
        ON CONFLICT (id) DO UPDATE SET name = excluded.name,
            max_article_age_days = excluded.max_article_age_days,
            dedupe_across_sources = excluded.dedupe_across_sources""",
        params,
    )
    _forget_marks(session, podcast)


def _change_podcast(session: Session, podcast: Podcast) -> None:
    _refuse_taken_podcast(session, podcast)
    sql = """UPDATE podcasts SET name = :name, max_article_age_days = :days,
        dedupe_across_sources = :dedupe WHERE id = :id"""
    if not session.execute(sql, _podcast_row(podcast)):
        raise NotFound(f"there is no podcast {podcast.id!r}")
    _forget_marks(session, podcast)


def _forget_marks(session: Session, podcast: Podcast) -> None:
    if not podcast.dedupe_across_sources:
        marks.forget(session, podcast.id)


def _refuse_taken_podcast(session: Session, podcast: Podcast) -> None:
    sql = "SELECT id FROM podcasts WHERE user_id = :user AND name = :name AND id <> :id"
    if session.fetch(sql, _podcast_row(podcast)):
        raise UsageError(f"there is a podcast {podcast.name!r} already", field="name")


def _podcast_row(podcast: Podcast) -> dict[str, object]:
    return {
        "id": podcast.id,
        "user": podcast.user_id,
        "name": podcast.name,
        "now": to_ms(podcast.created_at),
        "days": podcast.max_article_age_days,
        "dedupe": podcast.dedupe_across_sources,
    }


def _set_key(
    session: Session, user_id: str, provider: str, sealed: SealedSecret, now: datetime
) -> int:
    params = {"user": user_id, "provider": provider, "now": to_ms(now)}
    session.execute(
        """INSERT INTO api_keys (user_id, provider, key_id, nonce, ciphertext, created_at)
        VALUES (:user, :provider, :key_id, :nonce, :ciphertext, :now)
        ON CONFLICT (user_id, provider) DO UPDATE SET key_id = excluded.key_id,
            nonce = excluded.nonce, ciphertext = excluded.ciphertext,
            created_at = excluded.created_at""",
        params | {"key_id": sealed.key_id, "nonce": sealed.nonce, "ciphertext": sealed.ciphertext},
    )
    refuse_retired(session, sealed.key_id)
    if provider != "x":
        return 0
    # a poll under way has no key, or the old one: its result must not pass for the answer (D4)
    return session.execute(
        """UPDATE sources SET requested_at = :now, generation = generation + 1
        WHERE enabled AND type = 'twitter' AND (consecutive_failures > 0 OR NOT first_poll_done)
        AND podcast_id IN (SELECT id FROM podcasts WHERE user_id = :user)""",
        {"now": params["now"], "user": user_id},
    )
