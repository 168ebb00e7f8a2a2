"""Conventions: sizes of the source code, existing lint exceptions, public names in tests."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
MAX_LINES = {"file": 400, "class": 250, "function": 50}
# private by name, public by documentation
DOCUMENTED = {"_replace", "_fields", "_asdict", "_exit"}
# tests that need private names: planted faults, and hidden library state
ALLOWED = {
    "simulation/test_mutants.py": {
        "_disabled_if_over_limit", "_done", "_run", "_success_fields", "_with_failure",
    },
    "test_deploy.py": {"_protected_args"},  # where typer keeps the rest of a call
}  # fmt: skip


def private_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Private names of other objects and modules that are read, patched or imported, with lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name) if is_private(name):
                yield node.lineno, name
            case ast.Call(func=ast.Name(id="getattr" | "setattr" | "hasattr") | ast.Attribute()):
                yield from ((node.lineno, name) for name in patched_names(node))
            case ast.ImportFrom(names=names, module=module) if module != "__future__":
                yield from ((node.lineno, one.name) for one in names if is_private(one.name))


def patched_names(call: ast.Call) -> Iterator[str]:
    """Private names among the first arguments of getattr, setattr or patch, as in `"a.b._c"`."""
    called = call.func.attr if isinstance(call.func, ast.Attribute) else "getattr"
    if called not in ("getattr", "setattr", "delattr", "object", "patch"):
        return
    for argument in call.args[:2]:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            name = argument.value.rpartition(".")[2]
            if is_private(name):
                yield name


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in DOCUMENTED


@pytest.mark.parametrize(
    "path", sorted(TESTS.rglob("*.py")), ids=lambda path: str(path.relative_to(TESTS))
)
def test_private_names_of_other_modules_are_not_used(path: Path):
    allowed = ALLOWED.get(str(path.relative_to(TESTS)), set())
    found = list(private_names(ast.parse(path.read_text())))
    assert [(line, name) for line, name in found if name not in allowed] == []
    assert allowed <= {name for _, name in found}, "no longer needed"


def test_every_exception_names_a_file():
    assert [name for name in ALLOWED if not (TESTS / name).exists()] == []


def sizes(text: str) -> Iterator[tuple[str, str, int]]:
    """The kind, name and number of lines of a file and of its classes and functions."""
    yield "file", "", len(text.splitlines())
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ClassDef():
                yield "class", node.name, (node.end_lineno or 0) - node.lineno + 1
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield "function", node.name, (node.end_lineno or 0) - node.lineno + 1


def test_files_classes_and_functions_are_short():
    paths = sorted((ROOT / "src").rglob("*.py"))
    found = [(path, *size) for path in paths for size in sizes(path.read_text(encoding="utf-8"))]
    assert {kind for _, kind, _, _ in found} == set(MAX_LINES)
    assert [
        f"{path.relative_to(ROOT)}: {kind} {name} has {lines} lines"
        for path, kind, name, lines in found
        if lines > MAX_LINES[kind]
    ] == []


def test_a_public_class_name_is_defined_once():
    """Only the client repeats names: those of what the API returns and accepts (decision 46)."""
    places: dict[str, list[Path]] = {}
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not is_private(node.name):
                places.setdefault(node.name, []).append(path)
    twice = {
        name: [path for path in paths if "client" not in path.parts]
        for name, paths in places.items()
        if len(paths) > 1
    }
    assert len(places) > 500
    assert {name: paths for name, paths in twice.items() if len(paths) != 1} == {}


def test_every_lint_exception_names_a_file():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = config["tool"]["ruff"]["lint"]["per-file-ignores"]
    assert [pattern for pattern in patterns if not any(ROOT.glob(pattern))] == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_each_migration_has_a_number_of_its_own(kind: str):
    folder = ROOT / "src" / "headwater" / "store" / "migrations" / kind
    numbers = sorted(int(path.name[:4]) for path in folder.glob("*.sql"))
    assert numbers == list(range(1, len(numbers) + 1))


def polling_lines(tree: ast.Module) -> Iterator[ast.Call]:
    """Calls that log a line of the category [Polling] with a constant text."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="log")), args=[ast.Constant(str(text)), *_]
            ) if text.startswith("[Polling]"):
                yield node


def test_l1_no_line_about_polling_identifies_a_source_by_its_id():
    found = [
        (path, line)
        for path in (ROOT / "src").rglob("*.py")
        for line in polling_lines(ast.parse(path.read_text()))
    ]
    assert len(found) > 5
    by_id = {"source", "source_id", "id"}  # the masked URL says more
    wrong = [
        f"{path.relative_to(ROOT)}:{line.lineno}"
        for path, line in found
        if by_id & {one.arg for one in line.keywords}
    ]
    assert wrong == []
