"""Faults planted in the program: the audit of the crash tests must detect each of them."""

import fcntl
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, cast

from headwater.store import sqlite


def validators_first() -> None:
    """Commit the state of a source in a separate transaction, before its posts (K1)."""
    package, record = _modules()

    def torn(session: Any, outcomes: Any, store: Callable[..., Any]) -> Any:
        record.update_sources(session, outcomes if isinstance(outcomes, list) else [outcomes])
        _commit(session)
        kept = record.update_sources, record.refuse_edited
        record.update_sources = record.refuse_edited = lambda *_: None
        try:
            return store(session, outcomes)
        finally:
            record.update_sources, record.refuse_edited = kept

    record.store_outcomes = partial(torn, store=record.store_outcomes)
    package.record_large = partial(torn, store=package.record_large)


def posts_first() -> None:
    """Commit posts before the state, under hashes that the next poll does not find."""
    _, record = _modules()
    posts, store = record.posts, record.store_outcomes

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

    record.store_outcomes = torn


def batches_apart() -> None:
    """Commit every batch of a large feed in a separate transaction."""
    _, record = _modules()
    insert = record.posts.insert

    def torn(session: Any, outcomes: Sequence[Any]) -> None:
        insert(session, outcomes)
        _commit(session)

    record.posts.insert = torn


def lock_by_presence() -> None:
    """Use the existence of a file as the poll lock: after a kill it is never deleted."""
    module = cast(Any, sqlite)
    locked_file = module.locked_file

    def locked(path: str, how: int = fcntl.LOCK_EX) -> int | None:
        if how != fcntl.LOCK_EX:  # only a look at whether it is locked
            return cast("int | None", locked_file(path, how))
        try:
            return os.open(f"{path}.mine", os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return None

    module.locked_file = locked


MUTANTS: dict[str, Callable[[], None]] = {
    "validators first": validators_first,
    "posts first": posts_first,
    "batches apart": batches_apart,
    "lock by presence": lock_by_presence,
}


def _modules() -> tuple[Any, Any]:
    return (
        cast(Any, import_module("headwater.store")),
        cast(Any, import_module("headwater.store.record_outcomes")),
    )


def _commit(session: Any) -> None:
    session.connection.commit()
    session.connection.execute("BEGIN IMMEDIATE")
