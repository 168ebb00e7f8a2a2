"""Programs that are wrong on purpose: who looks for lost posts must find those that these lose."""

import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, cast

from headwater.store.sqlite import SqliteDatabase


def validators_first() -> None:
    """Commit the state that says "seen" in a transaction of its own, before the posts (K1)."""
    package, record = _modules()

    def torn(session: Any, outcomes: Any, store: Callable[..., Any]) -> Any:
        record._update_sources(session, outcomes if isinstance(outcomes, list) else [outcomes])
        _commit(session)
        kept = record._update_sources, record._refuse_overtaken
        record._update_sources = record._refuse_overtaken = lambda *_: None
        try:
            return store(session, outcomes)
        finally:
            record._update_sources, record._refuse_overtaken = kept

    record._store = partial(torn, store=record._store)
    package.record_large = partial(torn, store=package.record_large)


def posts_first() -> None:
    """Commit posts before the state, under names by which the next poll does not know them."""
    _, record = _modules()
    posts, store = record.posts, record._store

    def torn(session: Any, outcomes: Sequence[Any]) -> None:
        known = {secrets.token_hex(32): (o, post) for o in outcomes for post in o.posts}
        for name, (outcome, post) in known.items():
            renamed = replace(post, id=name, content_hash=name)
            posts.insert(session, [replace(outcome, posts=(renamed,))])
        _commit(session)
        sql = "UPDATE posts SET content_hash = :hash WHERE id = :id"
        for name, (_, post) in known.items():
            session.execute(sql, {"id": name, "hash": post.content_hash})
        store(session, outcomes)

    record._store = torn


def bites_apart() -> None:
    """Commit every bite of a large feed by itself."""
    _, record = _modules()
    insert = record.posts.insert

    def torn(session: Any, outcomes: Sequence[Any]) -> None:
        insert(session, outcomes)
        _commit(session)

    record.posts.insert = torn


def lock_by_presence() -> None:
    """Take a file that is there for the right to poll: nobody takes it away after a kill."""
    database = cast(Any, SqliteDatabase)

    def locked(self: Any) -> int | None:
        try:
            return os.open(f"{self.path}.mine", os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return None

    database._locked = locked


MUTANTS: dict[str, Callable[[], None]] = {
    "validators first": validators_first,
    "posts first": posts_first,
    "bites apart": bites_apart,
    "lock by presence": lock_by_presence,
}


def _modules() -> tuple[Any, Any]:
    return (
        cast(Any, import_module("headwater.store")),
        cast(Any, import_module("headwater.store.record")),
    )


def _commit(session: Any) -> None:
    session.connection.commit()
    session.connection.execute("BEGIN IMMEDIATE")
