"""Rule ids resolve: ids cited in code, tests and docs are in docs/spec.md, and each has a test."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SPEC = ROOT / "docs" / "spec.md"
PLACES = ("src", "tests", "bench", "docs")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

_RULE = re.compile(r"^- \*\*([A-Z][0-9]{1,2})\*\* \S", re.MULTILINE)
# `P3`, `D1-D3` and `N1–N15` as separate words: not in `%C3`, `1T08`, `-M4.5` or `2000::A1`
_CITED = re.compile(r"(?<![\w/#%&+.:-])([A-Z])([0-9]{1,2})(?:[-–]\1([0-9]{1,2}))?(?!\w|\.[0-9])")
_LEADING_IDS = re.compile(r"test((?:_[a-z][0-9]{1,2})+)_")


def rules_in(spec: str) -> list[str]:
    """The ids of the rules that a specification defines, in its order."""
    return _RULE.findall(spec)


def cited_in(text: str) -> set[str]:
    """The ids in a text, with ranges such as `D1-D3` expanded."""
    found = set()
    for letter, first, last in _CITED.findall(text):
        found |= {f"{letter}{n}" for n in range(int(first), int(last or first) + 1)}
    return found


def prose_of(source: str) -> Iterator[str]:
    """The docstrings and comments of Python code; other strings are data."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def unknown_in(text: str, rules: set[str], *, is_python: bool) -> set[str]:
    """The ids that a file cites and no rule has."""
    unknown = cited_in(text) - rules
    if unknown and is_python:  # parsing every file takes seconds
        unknown &= {id_ for part in prose_of(text) for id_ in cited_in(part)}
    return unknown


def ids_of_test(name: str) -> list[str]:
    """The ids that a test's name starts with: `test_n3_n4_…` has N3 and N4."""
    leading = _LEADING_IDS.match(name)
    return leading[1][1:].upper().split("_") if leading else []


def named_tests() -> dict[str, list[str]]:
    """The tests that name each id."""
    found: dict[str, list[str]] = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", text, re.MULTILINE):
            for id_ in ids_of_test(name):
                found.setdefault(id_, []).append(f"{file.relative_to(ROOT)}::{name}")
    return found


RULES = rules_in(SPEC.read_text(encoding="utf-8"))
TESTS = named_tests()
FILES = sorted(
    file
    for place in PLACES
    for ending in ("py", "md", "sql")
    for file in (ROOT / place).rglob(f"*.{ending}")
    if "out" not in file.relative_to(ROOT).parts  # bench/out has other programs
)


def test_q2_every_id_that_is_cited_is_a_rule():
    assert len(FILES) > 100
    unknown = {}
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        ids = unknown_in(text, set(RULES), is_python=file.suffix == ".py")
        if ids:
            unknown[file.relative_to(ROOT).as_posix()] = sorted(ids)
    assert unknown == {}


def test_q2_every_id_in_the_name_of_a_test_is_a_rule():
    assert {id_: tests for id_, tests in TESTS.items() if id_ not in RULES} == {}


@pytest.mark.parametrize("rule", RULES)
def test_q2_every_rule_has_a_test(rule):
    assert TESTS.get(rule), f"no test is named test_{rule.lower()}_..."


def test_every_rule_has_one_definition_and_groups_are_in_order():
    assert len(RULES) > 100
    assert len(set(RULES)) == len(RULES)
    for group in {rule[0] for rule in RULES}:
        numbers = [int(rule[1:]) for rule in RULES if rule[0] == group]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("never later than now (R3)", {"R3"}),
        ("both (R2, R3, D1-D3; M1)", {"R2", "R3", "D1", "D2", "D3", "M1"}),
        ("an en dash: N14–N16", {"N14", "N15", "N16"}),
        ("P7: a poll has succeeded, as F1 has it", {"P7", "F1"}),
        ("Z9 is no rule", {"Z9"}),
        ("%C3%BC, 2026-02-16T08:00, M4.5, UTF-8, P-256, X509, CP1252, h1, `sha-A1`, #A1", set()),
    ],
)
def test_ids_are_found_in_text(text, ids):
    assert cited_in(text) == ids


def test_an_id_that_no_rule_has_is_found_in_comments_and_docstrings_only():
    source = '"""A module (Z1)."""\nx = "Z2"  # why (Z3, P3)\n\ndef f():\n    """See Z4."""\n'
    assert unknown_in(source, {"P3"}, is_python=True) == {"Z1", "Z3", "Z4"}
    assert unknown_in("as (P3) and (P4) say", {"P3"}, is_python=False) == {"P4"}


@pytest.mark.parametrize(
    ("name", "ids"),
    [("test_s3_backoff", ["S3"]), ("test_n3_n4_guard", ["N3", "N4"]), ("test_else_h1_", [])],
)
def test_ids_are_found_in_names_of_tests(name, ids):
    assert ids_of_test(name) == ids


def test_rules_are_found_in_a_specification():
    assert rules_in("# Title\n- **S1** A tick.\n- **S2** Due (S9).\n  - **S3** no\n") == [
        "S1",
        "S2",
    ]
