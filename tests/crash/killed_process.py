"""The ordinary command line, whose process kills itself at a named point.

`python -m tests.crash.killed_process '{"point": "commit", "when": "before", "nth": 3}' serve` kills
itself before the third commit of polls' results. The points are patched in from outside: the
program has no code for them.
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

# one call of these is one pass of the point
_CALLS = {
    "fetch": ("headwater.fetch.fetcher:Fetcher.document",),
    "parse": ("headwater.fetch.pool.parser_pool:ParserPool.feed",),
    "insert": ("headwater.store.posts:insert",),
    "state": ("headwater.store.record_outcomes:update_sources",),
    "history": ("headwater.store.poll_history:insert",),
    "event": ("headwater.engine.poller:Poller.publish",),
    "key creation": (
        "headwater.vault:draft_of",
        "headwater.vault:write_keys",
        "os:link",
        "headwater.vault:sync_folder",
    ),
}
# transactions by their callback: one statement of these is one pass of the point
_TRANSACTIONS = {
    "record": ("Store._record_many.", "Store._record_one_large."),
    "cleanup": ("Store.clean.",),
    "migration": ("Store.prepare.",),
}
_STATEMENTS = (
    "execute", "execute_many", "fetch", "fetch_bulk", "insert_rows", "update_rows",
)  # fmt: skip
# begin and commit of the transactions that record polls
POINTS = (*_CALLS, "begin", "commit", "cleanup", "aggregation", "migration")
WHENS = ("before", "after")


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a process is killed: `before` or `after` the `nth` pass of a point."""

    point: str = "nowhere"
    when: str = "before"
    nth: int = 1
    mutant: str | None = None  # a faulty program
    small_batches: bool = False  # two posts count as many and are inserted one by one

    @property
    def name(self) -> str:
        return f"{self.when} {self.point}" if self.point in POINTS else self.point

    def to_json(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    def but(self, **changes: Any) -> "Plan":
        return replace(self, **changes)


def install_kill(plan: Plan) -> None:
    """Wrap the functions of the plan's point so that the process is killed there."""
    if plan.small_batches:
        _use_small_batches()
    if plan.mutant is not None:
        MUTANTS[plan.mutant]()
    if plan.point not in POINTS:
        return
    switch = _KillSwitch(plan)
    for path in _CALLS.get(plan.point, ()):
        _plant_call(path, switch)
    if plan.point not in _CALLS:
        _plant_transactions(switch)


def _use_small_batches() -> None:
    """Store posts as for feeds with thousands of entries."""
    store, posts = import_module("headwater.store"), import_module("headwater.store.posts")
    for module, name in ((store, "POSTS_PER_COMMIT"), (posts, "ROWS_PER_STATEMENT")):
        assert getattr(module, name) >= 1000
        setattr(module, name, 1)


class _KillSwitch:
    """Counts the passes of a point and kills the process at the planned one."""

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


def _plant_call(path: str, switch: _KillSwitch) -> None:
    owner, name = _owner_of(path)
    function = getattr(owner, name)

    @wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        switch.before(switch.point)
        result = function(*args, **options)
        switch.after(switch.point)
        return result

    @wraps(function)
    async def awaited(*args: Any, **options: Any) -> Any:
        switch.before(switch.point)
        result = await function(*args, **options)
        switch.after(switch.point)
        return result

    setattr(owner, name, awaited if iscoroutinefunction(function) else called)


def _owner_of(path: str) -> tuple[Any, str]:
    module, _, names = path.partition(":")
    *owners, name = names.split(".")
    owner: Any = import_module(module)
    for part in owners:
        owner = getattr(owner, part)
    return owner, name


def _plant_transactions(switch: _KillSwitch) -> None:
    from psycopg import Transaction

    from headwater.store import aggregation
    from headwater.store.postgres import PostgresDatabase, PostgresSession
    from headwater.store.sqlite import SqliteDatabase, SqliteSession

    for database in (SqliteDatabase, PostgresDatabase):
        _plant(database, "in_transaction", partial(_named, switch))
    _plant(aggregation, "aggregate", partial(_renamed, switch, "aggregation"))
    for session in (SqliteSession, PostgresSession):
        for name in _STATEMENTS:
            _plant(session, name, partial(_step, switch))
    _plant(Transaction, "__enter__", partial(_edge, switch, "begin"))
    _plant(Transaction, "__exit__", partial(_edge, switch, "commit"))


def _plant(owner: Any, name: str, around: Callable[..., Any]) -> None:
    function = getattr(owner, name)

    @wraps(function)
    def planted(*args: Any, **options: Any) -> Any:
        return around(function, *args, **options)

    setattr(owner, name, planted)


def _named(
    switch: _KillSwitch, run: Callable[..., Any], database: Any, session: Any, work: Any
) -> Any:
    """Record the purpose of the transaction while it is open."""
    name = getattr(work, "func", work).__qualname__
    kinds = [kind for kind, known in _TRANSACTIONS.items() if name.startswith(known)]
    switch.inside.kind = kinds[0] if kinds else "other"
    try:
        return run(database, session, work)
    finally:
        switch.inside.kind = None


def _renamed(
    switch: _KillSwitch, kind: str, run: Callable[..., Any], *args: Any, **options: Any
) -> Any:
    """Record the purpose of a transaction with an audit entry: its callback has another name."""
    switch.inside.kind = kind
    return run(*args, **options)


def _step(
    switch: _KillSwitch, run: Callable[..., Any], session: Any, *args: Any, **options: Any
) -> Any:
    edges = {"BEGIN IMMEDIATE": "begin", "COMMIT": "commit"}
    edge = edges.get(args[0]) if session.kind == "sqlite" else None
    return _passed(switch, edge, partial(run, session, *args, **options))


def _edge(switch: _KillSwitch, edge: str, run: Callable[..., Any], *args: Any) -> Any:
    return _passed(switch, edge, partial(run, *args))


def _passed(switch: _KillSwitch, edge: str | None, run: Callable[[], Any]) -> Any:
    kind = getattr(switch.inside, "kind", None)
    point = edge if kind == "record" else kind
    if point is None:
        return run()
    switch.before(point)
    result = run()
    switch.after(point)
    return result


def run_killed(plan: Plan, arguments: list[str]) -> int:
    """Run a command that is killed as planned."""
    from headwater.cli import main

    install_kill(plan)
    return main(arguments)


if __name__ == "__main__":
    sys.exit(run_killed(Plan(**json.loads(sys.argv[1])), sys.argv[2:]))
