"""UsersAndPodcasts: users and their podcasts; names are unique, lists are oldest first."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from functools import partial
from operator import itemgetter

from headwater.errors import AlreadyExists, NotFound
from headwater.model import Podcast, User
from headwater.store import filter_changes, podcast_duplicates
from headwater.store.database import Row, Session, Tables, reads, reads_inline, writes
from headwater.store.keyset_pages import fetch_items
from headwater.store.row_mapping import columns, encoded, row_reader

_USER = "SELECT id, name, created_at FROM users"
_PODCAST_COLUMNS = [field.name for field in fields(Podcast)]
_PODCAST_SETTINGS = [c for c in _PODCAST_COLUMNS if c not in ("id", "user_id", "created_at")]
_PODCAST = f"SELECT {columns(_PODCAST_COLUMNS)} FROM podcasts"
_ALL = 1 << 62
_NAMED = "(id = :name OR name = :name) ORDER BY CASE WHEN id = :name THEN 0 ELSE 1 END"
_read_user = row_reader(User, "users")
_read_podcast = row_reader(Podcast, "podcasts")

After = tuple[object, ...] | None  # creation time and id of the last row of a page


def _user(session: Session, name_or_id: str) -> User:
    """The user with this id or name."""
    rows = session.fetch(f"{_USER} WHERE {_NAMED}", {"name": name_or_id})
    return _read_user.one(_first(rows, "user", name_or_id))


def _first(rows: Sequence[Row], what: str, name_or_id: str) -> Row:
    if not rows:
        raise NotFound(f"there is no {what} {name_or_id!r}")
    return rows[0]


def _add_user(session: Session, user: User) -> None:
    """Store a new user."""
    _refuse_duplicate_user(session, user)
    session.insert_rows("users", [_row(user)])


def _rename_user(session: Session, user: User) -> None:
    """Store a user's new name."""
    _refuse_duplicate_user(session, user)
    sql = "UPDATE users SET name = :name WHERE id = :id"
    if not session.execute(sql, _row(user)):
        raise NotFound(f"there is no user {user.id!r}")


def _refuse_duplicate_user(session: Session, user: User) -> None:
    sql = "SELECT id FROM users WHERE name = :name AND id <> :id"
    if session.fetch(sql, {"name": user.name, "id": user.id}):
        raise AlreadyExists(f"there is a user {user.name!r} already", field="name")


def _podcast_of(
    session: Session, user_name: str, podcast_name: str, *, only: str | None = None
) -> Podcast:
    """A podcast by names or ids; `only`: the id of the one user that is visible (U2)."""
    user = _user(session, user_name if only is None else only)
    if only is not None and user_name not in (user.id, user.name):
        raise NotFound(f"there is no user {user_name!r}")
    return _podcast(session, user.id, podcast_name)


def _podcast(session: Session, user_id: str, name_or_id: str) -> Podcast:
    """A user's podcast with this id or name."""
    sql = f"{_PODCAST} WHERE user_id = :user AND {_NAMED}"
    rows = session.fetch(sql, {"user": user_id, "name": name_or_id})
    return _read_podcast.one(_first(rows, "podcast", name_or_id))


def insert_or_update_podcast(session: Session, podcast: Podcast) -> None:
    """Insert or update a podcast."""
    sql = "SELECT id FROM users WHERE id = :user_id FOR KEY SHARE"
    if not session.fetch(sql, _row(podcast)):
        raise NotFound(f"there is no user {podcast.user_id!r}")
    _refuse_duplicate_podcast(session, podcast)
    session.insert_rows(
        "podcasts",
        [_row(podcast)],
        f"""ON CONFLICT (id) DO UPDATE SET
            {", ".join(f"{name} = excluded.{name}" for name in _PODCAST_SETTINGS)}""",
    )
    _update_deduplication(session, podcast)


def change_podcast(
    session: Session,
    podcast_id: str,
    change: Callable[[Podcast], Podcast],
    check: Callable[[Session, Podcast, Podcast], None] | None = None,
) -> Podcast:
    """Change an existing podcast, based on its current row.

    `check` gets the podcast before and after, and may raise an error before anything is changed.
    """
    rows = session.fetch(f"{_PODCAST} WHERE id = :id FOR NO KEY UPDATE", {"id": podcast_id})
    before = _read_podcast.one(_first(rows, "podcast", podcast_id))
    podcast = change(before)
    _refuse_duplicate_podcast(session, podcast)
    if check is not None:
        check(session, before, podcast)
    changes = ", ".join(f"{name} = :{name}" for name in _PODCAST_SETTINGS)
    session.execute(f"UPDATE podcasts SET {changes} WHERE id = :id", _row(podcast))
    if (before.keep, before.block) != (podcast.keep, podcast.block):
        filter_changes.note_podcast(session, podcast.id)
    _update_deduplication(session, podcast)
    return podcast


def _remove_podcast(
    session: Session, podcast_id: str, *, check: Callable[[Podcast], object] | None = None
) -> None:
    """Delete a podcast and everything that belongs to it; `check` may raise an error before."""
    if check is not None:
        rows = session.fetch(f"{_PODCAST} WHERE id = :id FOR UPDATE", {"id": podcast_id})
        check(_read_podcast.one(_first(rows, "podcast", podcast_id)))
    if not session.execute("DELETE FROM podcasts WHERE id = :id", {"id": podcast_id}):
        raise NotFound(f"there is no podcast {podcast_id!r}")


def _update_deduplication(session: Session, podcast: Podcast) -> None:
    if not podcast.dedupe_across_sources:
        podcast_duplicates.disable(session, podcast.id)


def _refuse_duplicate_podcast(session: Session, podcast: Podcast) -> None:
    sql = "SELECT id FROM podcasts WHERE user_id = :user_id AND name = :name AND id <> :id"
    if session.fetch(sql, _row(podcast)):
        raise AlreadyExists(f"there is a podcast {podcast.name!r} already", field="name")


def _row(owner: User | Podcast) -> dict[str, object]:
    return {field.name: encoded(getattr(owner, field.name)) for field in fields(owner)}


def _podcast_with(session: Session, podcast_id: str) -> Podcast:
    """The podcast with this id, of any user."""
    rows = session.fetch(f"{_PODCAST} WHERE id = :id", {"id": podcast_id})
    return _read_podcast.one(_first(rows, "podcast", podcast_id))


def _owners(session: Session, podcast_ids: Collection[str]) -> Mapping[str, User]:
    """The owners of these podcasts, by podcast."""
    sql = """SELECT p.id, u.id, u.name, u.created_at FROM podcasts p JOIN users u
        ON u.id = p.user_id WHERE p.id IN :ids"""
    rows = session.fetch(sql, {"ids": list(podcast_ids)})
    return {row[0]: _read_user.one(row[1:]) for row in rows}


def _users(
    session: Session, *, limit: int = _ALL, after: After = None, only: str | None = None
) -> list[User]:
    """Users, oldest first; `after` continues after a row, `only` restricts them to one id."""
    fetch = partial(_list, session, f"{_USER} WHERE", "id", only, limit)
    return fetch_items(fetch, _read_user.all, itemgetter(2, 0), limit=limit, after=after)


def list_podcasts(
    session: Session, user_id: str | None, *, limit: int = _ALL, after: After = None
) -> list[Podcast]:
    """Podcasts of a user, or of all users if None; oldest first."""
    fetch = partial(_list, session, f"{_PODCAST} WHERE", "user_id", user_id, limit)
    position = itemgetter(_PODCAST_COLUMNS.index("created_at"), 0)
    return fetch_items(fetch, _read_podcast.all, position, limit=limit, after=after)


def lock_podcasts(session: Session, user_id: str) -> None:
    """Let no other transaction change the podcasts of a user, or add sources to them."""
    sql = "SELECT id FROM podcasts WHERE user_id = :user ORDER BY id FOR NO KEY UPDATE"
    session.fetch(sql, {"user": user_id})


def _automatic(session: Session) -> list[Podcast]:
    """The podcasts that are aggregated automatically and have a post in no article (E2)."""
    sql = f"""{_PODCAST} p WHERE aggregate_automatically AND EXISTS
        (SELECT 1 FROM posts x WHERE x.podcast_id = p.id AND NOT x.is_linked AND x.created_at >= 0
            AND x.filtered_by IS NULL)"""
    return _read_podcast.all(session.fetch(sql))


def _list(
    session: Session, select: str, column: str, value: str | None, limit: int, after: After
) -> list[Row]:
    conditions = [f"{column} = :value"] if value is not None else []
    if after is not None:
        conditions.append("(created_at, id) > (:after_at, :after_id)")
    at, id_ = after or (None, None)
    sql = f"{select} {' AND '.join(conditions) or 'TRUE'} ORDER BY created_at, id LIMIT :limit"
    return session.fetch(sql, {"value": value, "limit": limit, "after_at": at, "after_id": id_})


class UsersAndPodcasts(Tables):
    """The users and podcasts tables."""

    add_user = writes(_add_user)
    rename_user = writes(_rename_user)
    save_podcast = writes(insert_or_update_podcast)
    edit_podcast = writes(change_podcast)
    remove_podcast = writes(_remove_podcast)
    users = reads(_users)
    owners = reads(_owners)
    user = reads_inline(_user)
    podcasts = reads(list_podcasts)
    podcast = reads_inline(_podcast)
    podcast_of = reads_inline(_podcast_of)
    podcast_with = reads(_podcast_with)
    automatic = reads(_automatic)

    async def remove_user(self, user_id: str) -> None:
        """Delete a user and everything that belongs to them."""
        await self.database.execute("DELETE FROM users WHERE id = :id", {"id": user_id})
