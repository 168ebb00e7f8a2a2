"""Programs that are wrong on purpose: who looks for lost posts must find those that these lose."""

import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, cast

from headwater.store.sqlite import SqliteDatabase


def validators_first() -> None:
    """Commit the state that says "seen" in a transaction of its own, before the posts (K1)."""
    record = cast(Any, import_module("headwater.store.record"))
    store = record._store

    def torn(session: Any, outcomes: Sequence[Any]) -> None:
        if outcomes:
            record._update_sources(session, outcomes)
            _commit(session)
        with_state = record._update_sources
        record._update_sources = lambda *_: None
        try:
            store(session, outcomes)
        finally:
            record._update_sources = with_state

    record._store = torn


def posts_first() -> None:
    """Commit posts before the state, under names by which the next poll does not know them."""
    record = cast(Any, import_module("headwater.store.record"))
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
    "lock by presence": lock_by_presence,
}


def _commit(session: Any) -> None:
    session.connection.commit()
    session.connection.execute("BEGIN IMMEDIATE")
