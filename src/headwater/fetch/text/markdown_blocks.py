"""Arranges blocks of Markdown: lists, quotes, headings, code and tables around their text (T1)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from headwater.fetch.text.html_to_text import PIECES
from headwater.fetch.text.sanitize import storable_text
from headwater.rules.markdown_text import LINE_STARTS, with_escaped_starts

_MAX_PREFIXES = 8  # nested lists and quotes that are indented; deeper ones are not
_MAX_COLUMNS = 50
_MAX_CELLS = 5_000
_MAX_NUMBER = 999_999_999  # of a list item in Markdown
_BACKTICKS = re.compile("`{3,}")
_ESCAPED_PIPE = "\\|"
_SEPARATOR_CHARACTERS = str.maketrans(dict.fromkeys(map(chr, range(0x1C, 0x20)), " "))


@dataclass(slots=True)
class _Nesting:
    """An open list, list item or quote."""

    name: str
    first: str = ""  # the prefix of its next line: the marker of a list item that is not written
    rest: str = ""  # the prefix of later lines
    number: int | None = None  # of the item, or of the next item of an ordered list
    outer: "_Nesting | None" = None  # the list of an item

    @property
    def has_prefix(self) -> bool:
        return bool(self.rest)


@dataclass(slots=True)
class _Table:
    """A table whose cells are collected until it ends."""

    rows: list[list[str]] = field(default_factory=list)
    has_header: bool = True  # so far, all cells of the first row are header cells
    in_cell: bool = False
    cells: int = 0


class BlockWriter:
    """Writes paragraphs and other blocks into the lists and quotes that are open."""

    def __init__(self, *, max_added: int) -> None:
        """`max_added` limits the indentation in characters: deep nesting must not multiply it."""
        self._added_left = max_added
        self._open: list[_Nesting] = []
        self._open_names: dict[str, int] = {}
        self._prefixes: list[_Nesting] = []  # those that have one, outermost first
        self._last: list[_Nesting] = []  # the prefixes of the last block
        self._shared = 0  # how many of them are still open
        self._after_paragraph = False
        self._table: _Table | None = None
        self._output: list[str] = []
        self._long = bytearray()  # earlier output; UTF-8 needs the least memory (H1)

    @property
    def in_cell(self) -> bool:
        """Whether text belongs to a table cell, which has one line."""
        return self._table is not None and self._table.in_cell

    def finish(self) -> str:
        """End everything and return the Markdown."""
        self.end_table()
        if not self._long:
            return "".join(self._output)
        self._compact()
        return self._long.decode()

    def paragraph(self, parts: Sequence[str], *, level: int = 0) -> None:
        """Write a paragraph, or a heading of this level; newlines are line breaks."""
        if self._table is not None:
            if self._table.in_cell and self._add_to_cell("".join(parts)):
                return
            if self._table.rows:
                self.abandon_table()  # text outside of cells, or several blocks in one
        if level:
            text = "".join(parts).replace("\n", " ")
            if text.endswith("#"):  # or it would belong to the marker
                text = f"{text[:-1]}\\#"
            self._write([f"{'#' * level} {text}"])
        else:
            self._write([with_escaped_starts(part) for part in parts], line_end="  \n")
        self._after_paragraph = not level

    def paragraphs(self, lines: Sequence[str]) -> None:
        """Write paragraphs of one line each, none of them empty."""
        if self._prefixes or self._table is not None or not lines:
            for line in lines:
                self.paragraph([line])
        else:
            if not LINE_STARTS.isdisjoint([line[0] for line in lines]):
                lines = list(map(with_escaped_starts, lines))
            self._write(["\n\n".join(lines)])
            self._after_paragraph = True

    def code(self, text: str) -> None:
        """Write a block of code as it is."""
        lines = storable_text(text.translate(_SEPARATOR_CHARACTERS)).rstrip().split("\n")
        while lines and not lines[0].strip():
            del lines[0]
        if not lines:
            return
        text = "\n".join(lines)
        longest = max(map(len, _BACKTICKS.findall(text)), default=2)
        fence = "`" * (longest + 1)
        self._write([f"{fence}\n{text}\n{fence}"])
        self._after_paragraph = False

    def start(self, name: str, number: int | None = None) -> None:
        """Open a list, a list item or a quote; `number` is the first of an ordered list."""
        nesting = _Nesting(name)
        if name == "li":
            if self._open and self._open[-1].name == "li":
                self._close()  # its end tag is optional
            self._number(nesting)
        elif name == "blockquote":
            nesting.first = nesting.rest = "> "
        else:
            nesting.number = number
        if len(self._prefixes) >= _MAX_PREFIXES or self._added_left < 0:
            nesting.first = nesting.rest = ""
        self._open.append(nesting)
        self._open_names[name] = self._open_names.get(name, 0) + 1
        if nesting.has_prefix:
            self._prefixes.append(nesting)

    def end(self, name: str) -> None:
        """Close the innermost of this name, and everything inside it."""
        if self._open_names.get(name):
            while self._open[-1].name != name:
                self._close()
            self._close()

    def start_table(self) -> None:
        """Begin to collect cells; a table inside a table is layout."""
        if self._table is None:
            self._table = _Table()
        else:
            self.abandon_table()

    def start_row(self) -> None:
        """Begin a row of the table."""
        if self._table is not None:
            self._table.rows.append([])
            self._table.in_cell = False

    def start_cell(self, *, header: bool) -> None:
        """Begin a cell of the table."""
        table = self._table
        if table is None:
            return
        if not table.rows:
            table.rows.append([])
        table.rows[-1].append("")
        table.cells += 1
        table.in_cell = True
        if len(table.rows) == 1:
            table.has_header = table.has_header and header
        if table.cells > _MAX_CELLS or len(table.rows[-1]) > _MAX_COLUMNS:
            self.abandon_table()

    def end_cell(self) -> None:
        """End the cell."""
        if self._table is not None:
            self._table.in_cell = False

    def end_table(self) -> None:
        """Write the table, or its cells as paragraphs if it has one column only."""
        table = self._table
        if table is None:
            return
        rows = [row for row in table.rows if any(row)]
        columns = max(map(len, rows), default=0)
        if columns < 2 or not rows:
            self.abandon_table()
            return
        self._table = None
        header = rows.pop(0) if table.has_header else []
        lines = [header, None, *rows]
        self._write(["\n".join(_table_line(line, columns) for line in lines)])
        self._after_paragraph = False

    def abandon_table(self) -> None:
        """Write the cells so far as paragraphs; the rest of the table is written as it comes."""
        table, self._table = self._table, None
        for row in table.rows if table is not None else ():
            for cell in row:
                if cell:
                    self.paragraph([cell])

    def _add_to_cell(self, text: str) -> bool:
        """Add text to the cell; False if it already has a block."""
        row = self._table.rows[-1] if self._table is not None else []
        if not row or row[-1]:
            return False
        row[-1] = text.replace("\n", " ")
        return True

    def _number(self, item: _Nesting) -> None:
        outer = next((each for each in reversed(self._open[-2:]) if each.name != "li"), None)
        marker = "- "
        if outer is not None:
            item.outer = outer
            if outer.number is not None:
                marker = f"{outer.number}. "
                item.number = outer.number
                outer.number = min(outer.number + 1, _MAX_NUMBER)
        item.first, item.rest = marker, " " * len(marker)

    def _close(self) -> None:
        nesting = self._open.pop()
        self._open_names[nesting.name] -= 1
        if nesting.has_prefix:
            self._prefixes.pop()
            self._shared = min(self._shared, len(self._prefixes))

    def _write(self, parts: Sequence[str], *, line_end: str = "\n") -> None:
        output = self._output
        prefixes = self._prefixes
        if output or self._long:
            output.append(self._space_before())
        rest = ""
        if prefixes:
            first = "".join(each.first for each in prefixes)
            rest = "".join(each.rest for each in prefixes)
            for each in prefixes:
                each.first = each.rest
            output.append(first)
            self._added_left -= len(first)
        self._last = prefixes.copy()
        self._shared = len(prefixes)
        for part in parts:
            if "\n" in part:
                self._added_left -= len(rest) * part.count("\n")
                if self._added_left < 0:
                    rest = rest[:2] if rest.startswith(">") else ""
                part = part.replace("\n", line_end + rest)
            output.append(part)
        if self._added_left < 0:
            self._forget_prefixes()
        if len(output) > PIECES or self._long:
            self._compact()

    def _space_before(self) -> str:
        """The line ends before a block: list items follow each other without a blank line."""
        prefixes, shared = self._prefixes, self._shared
        if not prefixes:
            return "\n\n"
        if shared < len(prefixes) and self._after_paragraph and prefixes[shared].name == "li":
            item = prefixes[shared]
            before = self._last[shared] if shared < len(self._last) else None
            if before is not None and item.outer is not None and before.outer is item.outer:
                return "\n"
            # a bullet may follow the text of the item around it
            if before is None and shared and self._last[-1].name == "li" and item.number is None:
                return "\n"
        blank = "".join(each.rest for each in prefixes[:shared]).rstrip()
        self._added_left -= len(blank)
        return f"\n{blank}\n"

    def _forget_prefixes(self) -> None:
        """Write the rest without indentation: this document is made to multiply it."""
        for nesting in self._prefixes:
            nesting.first = nesting.rest = ""
        self._prefixes.clear()
        self._shared = 0

    def _compact(self) -> None:
        for piece in self._output:
            self._long += piece.encode("utf-8", "replace")
        self._output.clear()


def _table_line(cells: Sequence[str] | None, columns: int) -> str:
    """A row of the table, or the line below its header."""
    if cells is None:
        return f"|{' --- |' * columns}"
    padded = [*cells, *[""] * (columns - len(cells))]
    return f"| {' | '.join(cell.replace('|', _ESCAPED_PIPE) for cell in padded)} |"
