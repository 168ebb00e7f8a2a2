"""Draws on a terminal with rich: lines, tables that fit the width, and fields."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwater.cli.columns import MIN_WIDTH, Cell, Column, Styled, flat

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

_MAX_TEXT_WIDTH = 100


def console(*, errors: bool = False) -> Console:
    """Return a console for standard output or standard error; in a pipe without colours."""
    stream = sys.stderr if errors else sys.stdout
    return Console(file=stream, force_terminal=stream.isatty(), highlight=False, soft_wrap=False)


def print_markdown(text: str) -> None:
    """Print Markdown with its structure, in lines that are easy to read."""
    from rich.markdown import Markdown  # slow to import

    output = console()
    output.print(Markdown(text), width=min(output.width, _MAX_TEXT_WIDTH))


def progress_bar(text: str, *columns: "ProgressColumn | str") -> "Progress":
    """Return a progress bar for standard error, with more columns after the bar."""
    from rich.progress import BarColumn, Progress  # tables do without them

    parts = (text, BarColumn(bar_width=30), *columns)
    return Progress(*parts, console=console(errors=True), transient=True)


def print_line(parts: Sequence[Cell]) -> None:
    """Print a line, without wrapping."""
    console().print(Text.assemble(*map(_raw_text, parts)), soft_wrap=True)


def print_fields(fields: Mapping[str, Cell], title: str) -> None:
    """Print a title and two columns: names and values."""
    print_line([Styled(title, "bold")])
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in fields.items():
        grid.add_row(f"  {name}", _raw_text(value))
    console().print(grid)


def print_table(
    columns: Sequence[Column[Any]], rows: Sequence[Sequence[object]], title: str
) -> None:
    """Print a table; text is never interpreted as markup."""
    texts = [[Text(flat(cell), style=_style(cell)) for cell in row] for row in rows]
    needed = [
        max([len(column.name), *(row[index].cell_len for row in texts)])
        for index, column in enumerate(columns)
    ]
    room = console().width
    kept = _fitting(columns, needed, room)
    table = Table(
        box=box.SIMPLE_HEAD,
        header_style="bold",
        title=Text(title, style="bold") if title else None,
        title_justify="left",
        pad_edge=False,
    )
    for index, width in _widths(columns, needed, kept, room).items():
        name, justify = Text(columns[index].name), columns[index].justify
        table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis", width=width)
    for row in texts:
        table.add_row(*(row[index] for index in kept))
    console().print(table)


def _fitting(columns: Sequence[Column[Any]], needed: Sequence[int], room: int) -> list[int]:
    """Return the indices of the columns that fit: optional ones are left out until they do."""
    least = [min(n, column.min_width or n) for n, column in zip(needed, columns, strict=True)]
    kept = list(range(len(columns)))
    while True:
        droppable = [index for index in kept if columns[index].optional]
        if sum(least[index] for index in kept) + _padding(kept) <= room or not droppable:
            return kept
        kept.remove(max(droppable, key=lambda index: (columns[index].optional, index)))


def _widths(
    columns: Sequence[Column[Any]], needed: Sequence[int], kept: Sequence[int], room: int
) -> dict[int, int]:
    """Return the width of each column; where room is short, wide columns share what is left."""
    widths = {index: needed[index] for index in kept}
    shrinking = sorted((i for i in kept if columns[i].min_width), key=needed.__getitem__)
    left = room - _padding(kept) - sum(needed[i] for i in kept if i not in shrinking)
    for position, index in enumerate(shrinking):
        share = max(left // (len(shrinking) - position), MIN_WIDTH)
        widths[index] = min(needed[index], share)
        left -= widths[index]
    return widths


def _padding(columns: Sequence[int]) -> int:
    return 3 * len(columns) - 1


def _raw_text(cell: Cell) -> Text:
    """Return a cell as it is: the lines of a list stay apart."""
    return Text(str(cell), style=_style(cell))


def _style(cell: object) -> str:
    return cell.style if isinstance(cell, Styled) else ""
