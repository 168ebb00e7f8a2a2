"""The ordinary command line, but its process dies at a named place.

`python -m tests.crash.doomed '{"point": "commit", "when": "before", "nth": 3}' serve` kills
itself before the third commit of polls' results. The places are planted from outside: the program
knows nothing of them.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, wraps
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any

from tests.crash.mutants import MUTANTS

# one call of these is one pass of the place
_CALLS = {
    "fetch": ("headwater.fetch.fetcher:Fetcher.document",),
    "parse": ("headwater.fetch.parsers:Parsers.feed",),
    "insert": ("headwater.store.posts:insert",),
    "state": ("headwater.store.record:_update_sources",),
    "history": ("headwater.store.polls:insert",),
    "event": ("headwater.engine.poll:Poller._tell",),
    "key creation": (
        "headwater.vault:_draft_of",
        "headwater.vault:_write_keys",
        "os:link",
        "headwater.vault:_sync_folder",
    ),
}
# transactions by the function that fills them: one statement of these is one pass of the place
_TRANSACTIONS = {
    "record": ("Store._record_many.", "Store._record_aside."),
    "cleanup": ("Store.clean.",),
    "aggregation": ("aggregate",),
    "migration": ("Store.prepare.",),
}
_STATEMENTS = (
    "execute", "execute_many", "fetch", "fetch_together", "insert_rows", "update_rows",
)  # fmt: skip
# of the transactions that record polls, their beginning and their end
POINTS = (*_CALLS, "begin", "commit", "cleanup", "aggregation", "migration")
WHENS = ("before", "after")


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a process dies: at the `nth` pass of a place, `before` or `after` it."""

    point: str = "nowhere"
    when: str = "before"
    nth: int = 1
    mutant: str | None = None  # a program that is wrong on purpose
    small_bites: bool = False  # two posts are many, and are stored one by one

    @property
    def name(self) -> str:
        return f"{self.when} {self.point}" if self.point in POINTS else self.point

    def to_json(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    def but(self, **changes: Any) -> "Plan":
        return replace(self, **changes)


def doom(plan: Plan) -> None:
    """Plant what a plan asks for into the program."""
    if plan.small_bites:
        _take_small_bites()
    if plan.mutant is not None:
        MUTANTS[plan.mutant]()
    if plan.point not in POINTS:
        return
    fate = _Fate(plan)
    for path in _CALLS.get(plan.point, ()):
        _plant_call(path, fate)
    if plan.point not in _CALLS:
        _plant_transactions(fate)


def _take_small_bites() -> None:
    """Store posts the way of feeds with thousands of them."""
    store, posts = import_module("headwater.store"), import_module("headwater.store.posts")
    for module, name in ((store, "_POSTS_PER_COMMIT"), (posts, "_MOST_TOGETHER")):
        assert getattr(module, name) >= 1000
        setattr(module, name, 1)


class _Fate:
    """Counts the passes of one place and ends the process when its time has come."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._left = plan.nth
        self.inside = threading.local()

    def before(self, point: str) -> None:
        self._pass(point, "before")

    def after(self, point: str) -> None:
        self._pass(point, "after")

    def _pass(self, point: str, when: str) -> None:
        if (point, when) == (self._plan.point, self._plan.when):
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
                threading.Event().wait()

    @property
    def point(self) -> str:
        return self._plan.point


def _plant_call(path: str, fate: _Fate) -> None:
    owner, name = _owner_of(path)
    function = getattr(owner, name)

    @wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        fate.before(fate.point)
        result = function(*args, **options)
        fate.after(fate.point)
        return result

    @wraps(function)
    async def awaited(*args: Any, **options: Any) -> Any:
        fate.before(fate.point)
        result = await function(*args, **options)
        fate.after(fate.point)
        return result

    setattr(owner, name, awaited if iscoroutinefunction(function) else called)


def _owner_of(path: str) -> tuple[Any, str]:
    module, _, names = path.partition(":")
    *owners, name = names.split(".")
    owner: Any = import_module(module)
    for part in owners:
        owner = getattr(owner, part)
    return owner, name


def _plant_transactions(fate: _Fate) -> None:
    from psycopg import Transaction

    from headwater.store.postgres import PostgresDatabase, PostgresSession
    from headwater.store.sqlite import SqliteDatabase, SqliteSession

    for database in (SqliteDatabase, PostgresDatabase):
        _plant(database, "_in_transaction", partial(_named, fate))
    for session in (SqliteSession, PostgresSession):
        for name in _STATEMENTS:
            _plant(session, name, partial(_step, fate))
    _plant(Transaction, "__enter__", partial(_edge, fate, "begin"))
    _plant(Transaction, "__exit__", partial(_edge, fate, "commit"))


def _plant(owner: Any, name: str, around: Callable[..., Any]) -> None:
    function = getattr(owner, name)

    @wraps(function)
    def planted(*args: Any, **options: Any) -> Any:
        return around(function, *args, **options)

    setattr(owner, name, planted)


def _named(fate: _Fate, run: Callable[..., Any], database: Any, session: Any, work: Any) -> Any:
    """Remember what the transaction is for while it lasts."""
    name = getattr(work, "func", work).__qualname__
    kinds = [kind for kind, known in _TRANSACTIONS.items() if name.startswith(known)]
    fate.inside.kind = kinds[0] if kinds else "other"
    try:
        return run(database, session, work)
    finally:
        fate.inside.kind = None


def _step(fate: _Fate, run: Callable[..., Any], session: Any, *args: Any, **options: Any) -> Any:
    edges = {"BEGIN IMMEDIATE": "begin", "COMMIT": "commit"}
    edge = edges.get(args[0]) if session.kind == "sqlite" else None
    return _passed(fate, edge, partial(run, session, *args, **options))


def _edge(fate: _Fate, edge: str, run: Callable[..., Any], *args: Any) -> Any:
    return _passed(fate, edge, partial(run, *args))


def _passed(fate: _Fate, edge: str | None, run: Callable[[], Any]) -> Any:
    kind = getattr(fate.inside, "kind", None)
    point = edge if kind == "record" else kind
    if point is None:
        return run()
    fate.before(point)
    result = run()
    fate.after(point)
    return result


def run_doomed(plan: Plan, arguments: list[str]) -> int:
    """Run a command that dies as planned."""
    from headwater.cli import main

    doom(plan)
    return main(arguments)


if __name__ == "__main__":
    sys.exit(run_doomed(Plan(**json.loads(sys.argv[1])), sys.argv[2:]))
