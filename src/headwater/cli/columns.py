"""Columns and cells of the tables that commands print."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

MIN_WIDTH = 8


@dataclass(frozen=True, slots=True)
class Styled:
    """Text with a rich style, which shows on a terminal only."""

    text: str
    style: str

    def __str__(self) -> str:
        return self.text


Cell = str | Styled
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A column of a table; on a narrow terminal some shrink, and some are left out."""

    name: str
    cell: Callable[[T], object]  # Styled, or anything that str() makes a text of
    justify: Literal["left", "right"] = "left"
    min_width: int = 0  # it shrinks to this before optional columns are left out; 0: never
    optional: int = 0  # left out on a narrow terminal, the highest number first; 0: never


def number(name: str, cell: Callable[[T], object], *, optional: int = 0) -> Column[T]:
    """Return a column of numbers."""
    return Column(name, cell, "right", optional=optional)


def wide(
    name: str, cell: Callable[[T], object], *, min_width: int = 2 * MIN_WIDTH, optional: int = 0
) -> Column[T]:
    """Return a column of long text."""
    return Column(name, cell, min_width=min_width, optional=optional)


def flat(cell: object) -> str:
    """Return a cell as one line, without control characters (U7)."""
    text = str(cell)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " for c in text)
