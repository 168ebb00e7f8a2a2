"""SavedSearches: named queries of a podcast, each with the token of its feed (B3)."""

from dataclasses import fields

from headwater.content import SavedSearch
from headwater.errors import AlreadyExists, NotFound, UsageError
from headwater.store.database import Session, Tables, reads, reads_inline, writes
from headwater.store.row_mapping import columns, encoded, row_reader

MAX_SEARCHES = 100  # of a podcast
_NAMES = [field.name for field in fields(SavedSearch)]
_SELECT = f"SELECT {columns(_NAMES)} FROM saved_searches"
_read = row_reader(SavedSearch, "saved_searches")


def all_searches(session: Session, podcast_id: str) -> list[SavedSearch]:
    """The saved searches of a podcast, by name."""
    sql = f"{_SELECT} WHERE podcast_id = :podcast ORDER BY name"
    return _read.all(session.fetch(sql, {"podcast": podcast_id}))


def _get(session: Session, podcast_id: str, name: str) -> SavedSearch:
    """The search with this name."""
    sql = f"{_SELECT} WHERE podcast_id = :podcast AND name = :name"
    rows = session.fetch(sql, {"podcast": podcast_id, "name": name})
    if not rows:
        raise NotFound(f"there is no search {name!r}")
    return _read.one(rows[0])


def _with_token(session: Session, token: str) -> tuple[SavedSearch, str] | None:
    """The search whose feed has this token, and the id of the user it belongs to."""
    sql = f"""SELECT {columns(_NAMES, "s")}, p.user_id FROM saved_searches s
        JOIN podcasts p ON p.id = s.podcast_id WHERE s.feed_token = :token"""
    rows = session.fetch(sql, {"token": token})
    return (_read.one(rows[0][:-1]), rows[0][-1]) if rows else None


def add_search(session: Session, search: SavedSearch) -> None:
    """Store a new search."""
    params = {"podcast": search.podcast_id}
    sql = "SELECT id FROM podcasts WHERE id = :podcast FOR NO KEY UPDATE"
    if not session.fetch(sql, params):
        raise NotFound(f"there is no podcast {search.podcast_id!r}")
    _refuse_used_name(session, search.podcast_id, search.name)
    sql = "SELECT count(*) FROM saved_searches WHERE podcast_id = :podcast"
    if session.fetch(sql, params)[0][0] >= MAX_SEARCHES:
        raise UsageError(f"a podcast may have {MAX_SEARCHES} saved searches; delete one first")
    row = {name: encoded(getattr(search, name)) for name in _NAMES}
    session.insert_rows("saved_searches", [row])


def change_search(session: Session, search: SavedSearch, *, old_name: str) -> None:
    """Store the name and the query of a search."""
    if search.name != old_name:
        _refuse_used_name(session, search.podcast_id, search.name)
    sql = """UPDATE saved_searches SET name = :name, query = :query
        WHERE podcast_id = :podcast AND name = :old"""
    params = {"podcast": search.podcast_id, "name": search.name, "query": search.query}
    if not session.execute(sql, params | {"old": old_name}):
        raise NotFound(f"there is no search {old_name!r}")


def _refuse_used_name(session: Session, podcast_id: str, name: str) -> None:
    sql = "SELECT 1 FROM saved_searches WHERE podcast_id = :podcast AND name = :name"
    if session.fetch(sql, {"podcast": podcast_id, "name": name}):
        raise AlreadyExists(f"there is a search {name!r} already", field="name")


def remove_search(session: Session, podcast_id: str, name: str) -> None:
    """Delete a search; its feed ends."""
    sql = "DELETE FROM saved_searches WHERE podcast_id = :podcast AND name = :name"
    if not session.execute(sql, {"podcast": podcast_id, "name": name}):
        raise NotFound(f"there is no search {name!r}")


class SavedSearches(Tables):
    """The saved_searches table."""

    all = reads(all_searches)
    get = reads(_get)
    with_token = reads_inline(_with_token)
    add = writes(add_search)
    change = writes(change_search)
    remove = writes(remove_search)
