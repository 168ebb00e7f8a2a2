"""Every hazard that has a number has a test that names it: `test_n3_n4_...`."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
# whole process, outgoing requests, parsing, storing, outages and clocks, users, dependencies
LAST_OF_GROUP = {"h": 6, "n": 15, "m": 8, "k": 8, "o": 4, "u": 8, "q": 2}
NUMBERS = [f"{group}{n}" for group, last in LAST_OF_GROUP.items() for n in range(1, last + 1)]
_LEADING_IDS = re.compile(r"test((?:_[a-z][0-9]{1,2})+)_")


def named_numbers() -> dict[str, list[str]]:
    """The tests that name each number at the start of their names."""
    found: dict[str, list[str]] = {}
    for file in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                named = _LEADING_IDS.match(node.name)
                for number in named[1][1:].split("_") if named else ():
                    found.setdefault(number, []).append(f"{file.name}::{node.name}")
    return found


NAMED = named_numbers()


@pytest.mark.parametrize("number", NUMBERS)
def test_q2_a_hazard_is_named_by_a_test(number: str) -> None:
    assert NAMED.get(number), f"no test is named test_{number}_..."


def test_q2_a_number_that_is_named_exists() -> None:
    groups = tuple(LAST_OF_GROUP)
    assert {number for number in NAMED if number.startswith(groups)} <= set(NUMBERS)
