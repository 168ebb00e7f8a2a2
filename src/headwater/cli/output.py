"""What a person reads: tables on a terminal, tab-separated lines in a pipe, JSON when asked."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

Json = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
Cell = str | Text
_LEAST_WIDTH = 8


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; on a narrow terminal some shrink, and some are left out."""

    name: str
    justify: Literal["left", "right"] = "left"
    shrinks: bool = False
    least: int = _LEAST_WIDTH  # to which it shrinks while there are spare columns to leave out
    spare: int = 0  # left out where room is short, the highest number first; 0: never


def number(name: str) -> Column:
    """A column of numbers."""
    return Column(name, "right")


def wide(name: str, *, least: int = 2 * _LEAST_WIDTH) -> Column:
    """A column of long text."""
    return Column(name, shrinks=True, least=least)


def on_terminal() -> bool:
    """Whether a person looks at standard output."""
    return sys.stdout.isatty()


def console(*, errors: bool = False) -> Console:
    """Where to draw; in a pipe without colours."""
    stream = sys.stderr if errors else sys.stdout
    return Console(file=stream, force_terminal=stream.isatty(), highlight=False, soft_wrap=False)


def say(text: Cell) -> None:
    """Write a line as it is, however long."""
    if on_terminal():
        console().print(text if isinstance(text, Text) else Text(text), soft_wrap=True)
    else:
        sys.stdout.write(f"{_flat(text)}\n")


def note(text: str) -> None:
    """Write a line that is not part of the answer, on standard error."""
    sys.stderr.write(f"{_flat(text)}\n")


def show_json(document: object) -> None:
    """Write a JSON document."""
    text = json.dumps(document, ensure_ascii=False, indent=2)
    sys.stdout.write(text.encode("utf-8", "replace").decode("utf-8") + "\n")


def show_table(
    columns: Sequence[Column], rows: Iterable[Sequence[Cell]], *, empty: str, title: str = ""
) -> None:
    """Show rows: drawn on a terminal, tab-separated with a heading line in a pipe."""
    rows = list(rows)
    if not on_terminal():
        sys.stdout.write("\t".join(column.name.lower() for column in columns) + "\n")
        sys.stdout.writelines("\t".join(_flat(cell) for cell in row) + "\n" for row in rows)
    elif rows:
        console().print(drawn_table(columns, rows, title=title))
    else:
        say(Text(empty, style="dim"))


def drawn_table(
    columns: Sequence[Column], rows: Iterable[Sequence[Cell]], *, title: str = ""
) -> Table:
    """A table for a terminal; text is never taken for markup."""
    texts = [[c if isinstance(c, Text) else Text(_flat(c)) for c in row] for row in rows]
    kept = _kept(columns, texts, console().width)
    columns = [columns[index] for index in kept]
    texts = [[row[index] for index in kept] for row in texts]
    table = Table(
        box=box.SIMPLE_HEAD,
        header_style="bold",
        title=Text(title, style="bold") if title else None,
        title_justify="left",
        pad_edge=False,
    )
    widths = _widths(columns, texts, console().width)
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            Text(column.name),
            justify=column.justify,
            no_wrap=True,
            overflow="ellipsis",
            width=width,
        )
    for row in texts:
        table.add_row(*row)
    return table


def spare(column: Column, rank: int = 1) -> Column:
    """The column, left out where there is no room for it: higher ranks first."""
    return replace(column, spare=rank)


def _kept(columns: Sequence[Column], rows: Sequence[Sequence[Text]], room: int) -> list[int]:
    """The columns that fit: spare ones go, by rank, the last first, until the rest has room."""
    kept = list(range(len(columns)))
    while True:
        some = [columns[index] for index in kept]
        needed = _needed(some, [[row[index] for index in kept] for row in rows])
        least = sum(
            min(width, column.least) if column.shrinks else width
            for width, column in zip(needed, some, strict=True)
        )
        droppable = [index for index in kept if columns[index].spare]
        if least + _frame(some) <= room or not droppable:
            return kept
        kept.remove(max(droppable, key=lambda index: (columns[index].spare, index)))


def _frame(columns: Sequence[Column]) -> int:
    """What borders and padding take."""
    return 3 * len(columns) - 1


def _needed(columns: Sequence[Column], rows: Sequence[Sequence[Text]]) -> list[int]:
    return [
        max([len(column.name), *(row[index].cell_len for row in rows)])
        for index, column in enumerate(columns)
    ]


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[Text]], room: int) -> list[int]:
    """What each column needs; where that is too much, the wide ones share what is left."""
    needed = _needed(columns, rows)
    left = room - _frame(columns)
    left -= sum(width for width, column in zip(needed, columns, strict=True) if not column.shrinks)
    widths = list(needed)
    wide_ones = sorted((i for i, c in enumerate(columns) if c.shrinks), key=needed.__getitem__)
    for position, index in enumerate(wide_ones):
        share = max(left // (len(wide_ones) - position), _LEAST_WIDTH)
        widths[index] = min(needed[index], share)
        left -= widths[index]
    return widths


def show_card(fields: Mapping[str, Cell | None], *, title: Cell) -> None:
    """Show one thing field by field, without those that are empty."""
    filled = {name: value for name, value in fields.items() if value is not None}
    if not on_terminal():
        sys.stdout.writelines(f"{name.lower()}\t{_flat(v)}\n" for name, v in filled.items())
        return
    say(title if isinstance(title, Text) else Text(title, style="bold"))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in filled.items():
        grid.add_row(f"  {name}", value if isinstance(value, Text) else Text(value))
    console().print(grid)


def plain(models: Iterable[Any]) -> list[dict[str, Any]]:
    """Shapes as JSON has them."""
    return [model.plain() for model in models]


def _flat(cell: Cell) -> str:
    """A cell on one line, without anything a terminal would act upon (U7)."""
    text = cell.plain if isinstance(cell, Text) else cell
    return "".join(c if c.isprintable() else " " for c in text)
