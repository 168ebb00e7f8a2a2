"""Dependencies: few, pinned with their hashes, and none that executes data (Q1)."""

import ast
import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from headwater.operations.doctor import LEAST_VERSIONS

REPOSITORY = Path(__file__).parents[1]
SETS = ("runtime", "dev")
# data must never become code: these names would allow it
_EVALUATING = frozenset({"eval", "exec", "compile", "__import__"})
_UNSAFE_MODULES = frozenset({"pickle", "marshal", "shelve", "dill", "xmlrpc", "code", "jsonpickle"})
_UNSAFE_YAML = frozenset({"unsafe_load", "full_load", "UnsafeLoader", "FullLoader", "Loader"})
_PIN = re.compile(
    r"([A-Za-z0-9._-]+)==([^\s;\\]+)(?: *;[^\n\\]*)?((?:\s*\\?\s*--hash=sha256:[0-9a-f]{64})+)"
)


def pins(name: str) -> dict[str, str]:
    """The pinned packages of a set; a line without hashes does not count."""
    text = (REPOSITORY / "requirements" / f"{name}.txt").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    found = {normal(pin[1]): pin[2] for pin in _PIN.finditer(text)}
    assert len(found) == len(lines), "a package is not pinned, or has no hash"
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


@pytest.mark.parametrize("name", SETS)
def test_q1_every_package_is_pinned_with_hashes(name: str) -> None:
    assert pins(name)


def test_q1_every_requirement_is_pinned() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    wanted = {"runtime": project["dependencies"]}
    wanted["dev"] = wanted["runtime"] + project["optional-dependencies"]["dev"]
    for name in SETS:
        asked = {normal(re.split(r"[\[<>=; ]", line)[0]) for line in wanted[name]}
        assert asked <= pins(name).keys()


def test_q1_packages_that_extras_bring_are_declared() -> None:
    """pip 23 does not install the extra `html_clean` of lxml, which trafilatura imports."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    declared = {normal(re.split(r"[\[<>=; ]", line)[0]) for line in project["dependencies"]}
    assert "lxml-html-clean" in declared


def test_q1_both_sets_agree() -> None:
    assert pins("runtime").items() <= pins("dev").items()


def test_q1_the_pins_are_not_below_the_floors_that_the_doctor_asserts() -> None:
    pinned = pins("runtime")
    for name, (_, least) in LEAST_VERSIONS.items():
        assert numbers(pinned[name]) >= numbers(least), name


def test_q1_the_installed_versions_are_the_pinned_ones() -> None:
    for name, pinned in pins("runtime").items():
        try:
            assert version(name) == pinned, name
        except PackageNotFoundError:
            continue  # for another platform


def test_q1_packages_are_installed_with_hashes_required() -> None:
    for file in ("Makefile", "deploy/Dockerfile", "docs/security.md"):
        text = (REPOSITORY / file).read_text()
        assert "--require-hashes --requirement requirements/" in text, file
        assert text.count("--requirement ") == text.count("--require-hashes --requirement "), file
    makefile = (REPOSITORY / "Makefile").read_text()
    assert makefile.count("--generate-hashes") == len(SETS)


def sources() -> list[Path]:
    return sorted((REPOSITORY / "src").rglob("*.py"))


def evaluated(tree: ast.AST) -> set[str]:
    """The names in a module by which data could become code."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in _EVALUATING:
                found.add(name)
            case ast.Attribute(value=ast.Name(id="yaml"), attr=name) if name in _UNSAFE_YAML:
                found.add(name)
            case ast.Import(names=names):
                found |= {alias.name.split(".")[0] for alias in names} & _UNSAFE_MODULES
            case ast.ImportFrom(module=str(module)):
                found |= {module.split(".")[0]} & _UNSAFE_MODULES
            case ast.Attribute(attr="from_string" | "Template" as name):  # of a template engine
                found.add(name)
    return found


def test_q1_no_data_is_executed_as_code() -> None:
    for file in sources():
        assert not evaluated(ast.parse(file.read_bytes())), file


@pytest.mark.parametrize(
    "cheat",
    [
        "eval(text)",
        "exec(text)",
        "import pickle",
        "from marshal import loads",
        "yaml.unsafe_load(text)",
        "yaml.load(text, Loader=yaml.Loader)",
        "environment.from_string(text)",
    ],
)
def test_q1_execution_of_data_is_detected(cheat: str) -> None:
    assert evaluated(ast.parse(cheat))
