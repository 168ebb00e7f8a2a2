"""Imports point to the left, the network has one door, SQL one place, rules no clock or chance."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "src" / "headwater"
# Each name may import names of the rows above it, and its own package; never sideways.
LAYERS = (
    {"model", "errors", "clock", "batch"},
    {"rules"},
    {"logs"},
    {"fetch", "store", "settings", "vault", "demo"},
    {"engine"},
    {"simulation"},  # runs the engine on a clock, a web and a store of its own
    {"operations"},
    {"app"},
    {"api"},
    {"web"},
    {"cli"},
    {"__main__"},
)
LEVELS = {name: level for level, names in enumerate(LAYERS) for name in names}
NETWORK = {
    "OpenSSL",
    "aiohappyeyeballs",
    "aiohttp",
    "httptools",
    "socket",
    "httpx",
    "requests",
    "urllib3",
    "niquests",
    "wreq",
    "aiodns",
    "pycares",
}
NETWORK_DOORS = {"connect", "names", "address", "tls", "reading", "wire"}
OPENING_CALLS = {"open_connection", "create_connection", "sock_connect", "open_unix_connection"}
WEB_FRAMEWORK = {"fastapi", "starlette", "uvicorn"}  # takes a third of a second to load
SQL_DRIVERS = {"sqlite3", "psycopg", "asyncpg", "sqlalchemy"}
SQL_WORDS = ("SELECT ", "INSERT INTO ", "UPDATE ", "DELETE FROM ", "CREATE TABLE ")
TIME_AND_CHANCE = {"time", "random", "secrets", "os", "asyncio", "threading", "subprocess"}
CALLS_OF_TIME = {
    "now",
    "utcnow",
    "today",
    "time",
    "monotonic",
    "sleep",
    "urandom",
    "uuid4",
    "uuid1",
}


def modules() -> Iterator[tuple[str, Path, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        yield name.removesuffix(".__init__"), path, ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            module = node.module or ""
            yield module
            if module == "headwater":
                yield from (f"headwater.{alias.name}" for alias in node.names)


MODULES = list(modules())


@pytest.mark.parametrize(("name", "tree"), [(n, t) for n, _, t in MODULES if n != "__init__"])
def test_imports_point_to_the_left_never_back_or_sideways(name: str, tree: ast.Module) -> None:
    own = name.split(".")[0]
    assert own in LEVELS, f"{own} has no place among the layers"
    for target in imported(tree):
        other = target.removeprefix("headwater.").split(".")[0]
        if not target.startswith("headwater.") or other == own or other not in LEVELS:
            continue
        beside = LEVELS[other] == LEVELS[own] and LEVELS[own] > 0
        assert LEVELS[other] <= LEVELS[own], f"{name} imports {target}"
        assert not beside, f"{name} imports {target} sideways"


def test_n1_one_door_leads_to_the_network() -> None:
    for name, _, tree in MODULES:
        package, _, module = name.partition(".")
        if package == "fetch" and module in NETWORK_DOORS:
            continue
        if name == "api.server":  # listens, and asks nobody
            continue
        targets = set(imported(tree))
        found = {target.split(".")[0] for target in targets} & NETWORK
        found |= targets & {"urllib.request", "http.client", "ftplib", "smtplib"}
        assert not found, f"{name} uses {found}"


def test_sql_stands_in_the_store_alone() -> None:
    for name, _, tree in MODULES:
        if name.split(".")[0] == "store":
            continue
        assert not {target.split(".")[0] for target in imported(tree)} & SQL_DRIVERS, name
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not node.value.lstrip().startswith(SQL_WORDS), f"{name}:{node.lineno}"


def test_rules_have_no_clock_and_no_chance_of_their_own() -> None:
    for name, _, tree in MODULES:
        if name.split(".")[0] not in {"rules", "model"}:
            continue
        for node in ast.walk(tree):
            found = asks_for_time_or_chance(node)
            assert found is None, f"{name} uses {found}"


def asks_for_time_or_chance(node: ast.AST) -> str | None:
    if isinstance(node, ast.Import):
        names = {alias.name.split(".")[0] for alias in node.names}
        return next(iter(names & TIME_AND_CHANCE), None)
    if isinstance(node, ast.ImportFrom):
        module = (node.module or "").split(".")[0]
        names = {alias.name for alias in node.names}
        if module in TIME_AND_CHANCE and (module, names) != ("random", {"Random"}):
            return module
        return next(iter(names & CALLS_OF_TIME), None)
    owners = {"datetime", "date", "time", "uuid"}
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in owners
        and node.attr in CALLS_OF_TIME
    ):
        return f"{node.value.id}.{node.attr}"
    return None


@pytest.mark.parametrize(
    "cheat",
    [
        "import time",
        "from time import time as clock",
        "from secrets import token_hex",
        "from uuid import uuid4",
        "from random import Random, random",
        "moment = datetime.now(UTC)",
        "from os import urandom",
        "id_ = uuid.uuid4()",
    ],
)
def test_cheats_are_caught(cheat: str) -> None:
    assert any(asks_for_time_or_chance(node) for node in ast.walk(ast.parse(cheat)))


def test_n1_nobody_opens_connections_by_other_ways() -> None:
    for name, _, tree in MODULES:
        package, _, module = name.partition(".")
        if package == "fetch" and module in NETWORK_DOORS:
            continue
        calls = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        assert not calls & OPENING_CALLS, f"{name} uses {calls & OPENING_CALLS}"


def loaded_with(tree: ast.Module) -> set[str]:
    """The modules that importing a module imports; not what its functions do once called."""
    found = set[str]()
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


def test_no_command_but_serve_loads_the_web_framework() -> None:
    trees = {f"headwater.{name}": tree for name, _, tree in MODULES}
    seen, left = set[str](), {"headwater.cli"}
    while left:
        name = left.pop()
        seen.add(name)
        targets = loaded_with(trees[name])
        assert not {target.split(".")[0] for target in targets} & WEB_FRAMEWORK, name
        left |= (targets & trees.keys()) - seen
    assert "headwater.cli.serving" in seen
