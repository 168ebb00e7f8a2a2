"""The lines of a page that are watched: its main text, or what selectors keep of it (W1, W4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from headwater.errors import SelectorUnmatched
from headwater.fetch.page.html_blocks import Block, HtmlPage, Line, read_blocks
from headwater.fetch.page.main_text import main_lines
from headwater.fetch.page.selectors import select, selected_html
from headwater.rules.url_secrets import masked
from headwater.watch_settings import WatchSettings

# Controls and graphics inside of included elements; their text is not content.
_CONTROLS = frozenset({"noscript", "svg", "select", "textarea", "audio", "canvas"})
_CELLS = frozenset({"td", "th"})
_MAX_INSIDE = 4  # blocks between a cell and its text


@dataclass(frozen=True, slots=True)
class WatchedText:
    """Lines, and the markup and blocks they belong to."""

    html: str  # of the length of the page
    page: HtmlPage
    lines: Sequence[Line]

    def text(self) -> str:
        """The text, one block per line; a row of a table is one line with tabs between its cells.

        A cell alone, such as a price that changed, says nothing (W5). Rows with several blocks of
        text in a cell make up the layout of a page rather than a table.
        """
        found: list[str] = []
        with_cells = ((self._cell(line.block), line) for line in self.lines)
        for row, group in groupby(with_cells, key=lambda one: one[0] and one[0].parent):
            cells, lines = zip(*group, strict=True)
            separator = "\n" if row is None or len(set(cells)) < len(cells) else "\t"
            found.append(separator.join(line.text for line in lines))
        return "\n".join(found)

    def _cell(self, block: Block) -> Block | None:
        """The cell of a table that a line belongs to."""
        for _ in range(_MAX_INSIDE):
            outer = self.page.blocks[block.parent]
            if block.name in _CELLS:
                return block if outer.name == "tr" else None
            block = outer
        return None


def watched_text(
    html: str, page: HtmlPage, url: str, watch: WatchSettings | None = None
) -> WatchedText:
    """The text of a page; raises SelectorUnmatched if `include` matches no element (W7)."""
    if watch is None or not (watch.include or watch.exclude):
        return WatchedText(html, page, main_lines(page, html))
    selection = select(html, watch.include, watch.exclude)
    if watch.include and not selection.has_included:
        shown = ", ".join(watch.include)
        raise SelectorUnmatched(f"no element of {masked(url)} matches the selectors {shown}")
    html = selected_html(html, selection, only_include=bool(watch.include))
    page = read_blocks(html)
    lines = _all_lines(page) if watch.include else main_lines(page, html)
    return WatchedText(html, page, lines)


def _all_lines(page: HtmlPage) -> list[Line]:
    """Every line that is not part of a control."""
    is_control: list[bool] = []
    for block in page.blocks:  # outer ones first
        is_inside = bool(block.index) and is_control[block.parent]
        is_control.append(is_inside or block.name in _CONTROLS)
    return [line for line in page.lines if not is_control[line.block.index]]
