"""Layers: imports point left, one module connects, SQL in the store, rules without clock."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "src" / "headwater"
# each name may import names of the rows above it, and its own package; never siblings
LAYERS = (
    {
        "source_settings",
        "podcast_settings",
        "watch_settings",
        "css_selectors",
        "content",
        "suggestion",
        "garbage_collection",
    },
    {"model", "errors", "clock", "batcher"},
    {"query"},
    {"rules"},
    {"logs"},
    {"formats"},
    {"fetch", "store", "settings", "vault", "demo"},
    {"engine"},
    {"simulation"},  # runs the engine on its own clock, web and store
    {"operations"},
    {"app"},
    {"api"},
    {"web", "mcp_server"},
    {"cli"},
    {"__main__"},
)
# for programs of users: imports nothing of the service
CLIENT = "client"
MAY_USE_CLIENT = {"mcp_server"}  # with a service on another machine
LEVELS = {name: level for level, names in enumerate(LAYERS) for name in names}
NETWORK = {
    "OpenSSL",
    "aiohappyeyeballs",
    "aiohttp",
    "httptools",
    "socket",
    "httpx",
    "httpx2",
    "requests",
    "urllib3",
    "niquests",
    "wreq",
    "aiodns",
    "pycares",
    "aiosmtplib",
    "apprise",
}
NETWORK_DOORS = {
    f"net.{name}"
    for name in (
        "connector",
        "dns",
        "http_connection",
        "http_response_parser",
        "tls",
        # targets of the operator's configuration, which the address guard does not apply to (Y3)
        "smtp",
        "apprise_targets",
    )
}
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


SERVICE = [
    (name, tree) for name, _, tree in MODULES if name.split(".")[0] not in ("__init__", CLIENT)
]


@pytest.mark.parametrize(("name", "tree"), SERVICE)
def test_imports_point_left_never_back_or_sideways(name: str, tree: ast.Module) -> None:
    own = name.split(".")[0]
    assert own in LEVELS, f"{own} has no place among the layers"
    for target in imported(tree):
        other = target.removeprefix("headwater.").split(".")[0]
        if not target.startswith("headwater.") or other == own or other not in LEVELS:
            continue
        beside = LEVELS[other] == LEVELS[own] and LEVELS[own] > 0
        assert LEVELS[other] <= LEVELS[own], f"{name} imports {target}"
        assert not beside, f"{name} imports {target} sideways"


def test_v4_the_client_and_the_service_do_not_import_each_other() -> None:
    for name, _, tree in MODULES:
        package = name.split(".")[0]
        targets = [one for one in imported(tree) if one.startswith("headwater.")]
        of_client = [one for one in targets if one.split(".")[1] == CLIENT]
        if package == CLIENT:
            assert set(targets) - set(of_client) <= {"headwater.__version__"}, name
        elif package not in MAY_USE_CLIENT:
            assert of_client == [], name


def test_n1_only_one_module_imports_network_libraries() -> None:
    for name, tree in SERVICE:
        package, _, module = name.partition(".")
        if package == "fetch" and module in NETWORK_DOORS:
            continue
        if name == "api.server":  # listens, and opens no connection
            continue
        targets = set(imported(tree))
        found = {target.split(".")[0] for target in targets} & NETWORK
        found |= targets & {"urllib.request", "http.client", "ftplib", "smtplib"}
        assert not found, f"{name} uses {found}"


def test_sql_is_in_the_store_only() -> None:
    for name, _, tree in MODULES:
        if name.split(".")[0] == "store":
            continue
        assert not {target.split(".")[0] for target in imported(tree)} & SQL_DRIVERS, name
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not node.value.lstrip().startswith(SQL_WORDS), f"{name}:{node.lineno}"


def test_rules_use_no_clock_and_no_randomness() -> None:
    for name, _, tree in MODULES:
        if name.split(".")[0] not in {"query", "rules", "model"}:
            continue
        for node in ast.walk(tree):
            found = uses_time_or_randomness(node)
            assert found is None, f"{name} uses {found}"


def uses_time_or_randomness(node: ast.AST) -> str | None:
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
def test_violations_are_detected(cheat: str) -> None:
    assert any(uses_time_or_randomness(node) for node in ast.walk(ast.parse(cheat)))


def test_n1_only_the_http_client_opens_connections() -> None:
    for name, tree in SERVICE:
        package, _, module = name.partition(".")
        if package == "fetch" and module in NETWORK_DOORS:
            continue
        found = opening_calls(tree)
        assert not found, f"{name} uses {found}"


def test_n1_only_one_module_of_the_client_connects() -> None:
    """It connects to the service of its user, whose address the user gives."""
    found = {
        name
        for name, _, tree in MODULES
        if name.split(".")[0] == CLIENT
        and ({one.split(".")[0] for one in imported(tree)} & NETWORK or opening_calls(tree))
    }
    assert found == {"client.connections"}


def opening_calls(tree: ast.Module) -> set[str]:
    return {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)} & OPENING_CALLS


def loaded_with(tree: ast.Module) -> set[str]:
    """The modules that importing a module imports; not what its functions import once called."""
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
    # the command table imports commands by name
    seen, left = set[str](), {name for name in trees if name.startswith("headwater.cli")}
    while left:
        name = left.pop()
        seen.add(name)
        targets = loaded_with(trees[name])
        assert not {target.split(".")[0] for target in targets} & WEB_FRAMEWORK, name
        left |= (targets & trees.keys()) - seen
    assert "headwater.cli.serve" in seen
