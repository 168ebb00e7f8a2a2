"""Writes Markdown from the tokens of HTML, in linear time for any nesting (T1, M5).

The writer receives the same tokens that the plain text is made of. It collects the runs of text of
a paragraph and renders them at the edge of a block.
"""

from sys import getsizeof

from headwater.fetch.text.html_attributes import attribute
from headwater.fetch.text.html_to_text import (
    BLOCKS,
    LONG_TEXT,
    PART,
    PIECES,
    decoded,
    decoded_parts,
)
from headwater.fetch.text.inline_markdown import (
    CODE,
    EMPHASIS,
    LINE_BREAK,
    STRONG,
    Run,
    inline_markdown,
)
from headwater.fetch.text.markdown_blocks import BlockWriter
from headwater.fetch.text.sanitize import storable_line
from headwater.fetch.text.usual_paragraphs import usual_paragraphs
from headwater.fetch.text.web_links import text_link

_MAX_RUNS = 5_000  # of one paragraph, before they are rendered (H1)
_LONG_RUN = PART // 2  # characters; so is a longer run
_MAX_BYTES = 20_000_000  # of a text that has Markdown too; one wide character widens all others
_MAX_ALT_LENGTH = 1_000
_MAX_START = 6  # digits of the first number of a list
_FLAGS = {
    **dict.fromkeys(("em", "i", "cite", "dfn", "var"), EMPHASIS),
    **dict.fromkeys(("strong", "b"), STRONG),
    **dict.fromkeys(("code", "kbd", "samp", "tt"), CODE),
}
_KINDS = {
    **dict.fromkeys(BLOCKS, "edge"),
    **dict.fromkeys(_FLAGS, "flag"),
    **dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), "heading"),
    **dict.fromkeys(("ul", "ol", "menu", "dir", "li", "blockquote"), "nesting"),
    **dict.fromkeys(("table", "tr", "td", "th"), "table"),
    "a": "link",
    "br": "break",
    "img": "image",
    "pre": "code",
}
_INLINE = frozenset({"flag", "link", "image"})


class MarkdownWriter:
    """Collects tokens; `finish` returns the Markdown."""

    __slots__ = (
        "_base", "_blocks", "_counts", "_flags", "_heading", "_image", "_link", "_links_left",
        "_preformatted", "_rendered", "_runs", "_space",
    )  # fmt: skip

    def __init__(self, base: str, *, length: int) -> None:
        """`base` resolves relative links; `length` of the HTML limits what is added to it."""
        self._base = base
        self._blocks = BlockWriter(max_added=300 + length)
        self._links_left = 300 + length  # characters that resolving relative links may add
        self._runs: list[Run] = []
        self._rendered: list[str] = []  # the start of a very long paragraph
        self._space = False  # before the next text
        self._link: str | None = None
        self._counts = {EMPHASIS: 0, STRONG: 0, CODE: 0}  # open elements
        self._flags = 0
        self._heading = 0
        self._preformatted: list[str] | None = None
        self._image = ""  # an alternative text that waits for the end of a word

    def finish_for(self, text: str) -> str | None:
        """The Markdown of this plain text; None if both would need too much memory (H1)."""
        return self.finish() if getsizeof(text) <= _MAX_BYTES else None

    def finish(self) -> str:
        """End the last block and return the Markdown."""
        self._end_preformatted()
        self.end_block()
        return self._blocks.finish()

    def text(self, raw: str) -> None:
        """Add text with character references."""
        if len(raw) > LONG_TEXT:
            for part in decoded_parts(raw):
                self._add(part)
        else:
            self.short_text(raw)

    def short_text(self, raw: str) -> str:
        """Add text with character references, not longer than LONG_TEXT; return it decoded."""
        text = decoded(raw) if "&" in raw or "\0" in raw else raw
        self._add(text)
        return text

    def plain_run(self, text: str) -> None:
        """Add text without character references."""
        for start in range(0, len(text), PART):
            self._add(text[start : start + PART])

    def plain(self, text: str) -> None:
        """Add text without markup; blank lines separate its paragraphs."""
        for paragraph in text.split("\n\n") if len(text) <= LONG_TEXT else (text,):
            self.plain_run(paragraph)
            self.end_block()

    def tag(self, name: str, end: str, attributes: str | None) -> None:
        """Add a start tag, or an end tag if `end` is not empty."""
        kind = _KINDS.get(name)
        if kind is None:
            name = name.lower()
            kind = _KINDS.get(name)
            if kind is None:
                return
        if self._preformatted is not None and kind != "code":
            if kind not in _INLINE:
                self._preformatted.append("\n")
            return
        match kind:
            case "edge":
                self.end_block()
            case "flag":
                self._count_flag(_FLAGS[name], -1 if end else 1)
            case "link":
                self._link = None if end else self._target(attribute(attributes or "", "href"))
            case "break":
                self._break_line(end)
            case "image":
                self._read_image(attributes or "")
            case _:
                self._structure(kind, name, end, attributes or "")

    def usual_paragraphs(self, html: str) -> str | None:
        """Add `USUAL_PARAGRAPHS`; return their text, or None: they must be added tag by tag."""
        if self._preformatted is not None:
            return None
        self.end_block()
        if self._flags or self._link is not None:
            return None
        found = usual_paragraphs(html, self._target)
        if found is None:
            return None
        lines = found.markdown
        if self._heading and lines:
            self._blocks.paragraph([lines.pop(0)], level=self._heading)
            self._heading = 0
        self._blocks.paragraphs(lines)
        return found.text

    def end_block(self) -> None:
        """Render the paragraph that ends here."""
        if self._image:
            self._add_image()
        self._space = False
        runs = self._runs
        if not runs:
            return
        while runs and runs[-1][2] == LINE_BREAK:
            runs.pop()
        parts = [*self._rendered, inline_markdown(runs).strip(" ")]
        self._rendered.clear()
        self._runs = []
        self._link = None  # one link per block: a target may be long (M5)
        level, self._heading = self._heading, 0
        if any(parts):
            self._blocks.paragraph(parts, level=level)

    def _add(self, text: str) -> None:
        if self._preformatted is not None:
            self._preformatted.append(text)
            if len(self._preformatted) > PIECES:
                self._preformatted = ["".join(self._preformatted)]
            return
        if not self._image and text.isprintable() and "  " not in text:  # most texts
            if line := text.strip(" "):
                self._append(line, space=self._space or text[0] == " ")
                self._space = text[-1] == " "
            else:
                self._space = self._space or bool(text)
            return
        self._add_words(text)

    def _add_words(self, text: str) -> None:
        """Add text with any whitespace and control characters, or after an image."""
        words = text.split()
        if not words:
            self._space = self._space or bool(text)
            return
        line = " ".join(words)
        first, last = text[0].isspace(), text[-1].isspace()
        if not line.isprintable():
            line = storable_line(line)
            first = first or (len(words) > 1 and not storable_line(words[0]))
            last = last or (len(words) > 1 and not storable_line(words[-1]))
        starts_word = self._space or first
        if self._image and starts_word:
            self._add_image()
            starts_word = True
        if line:
            if self._image and " " in line:  # after the word that continues
                word, _, line = line.partition(" ")
                self._append(word, space=starts_word)
                self._add_image()
                starts_word = True
            self._append(line, space=starts_word)
            starts_word = False
        self._space = starts_word or last

    def _append(self, line: str, *, space: bool) -> None:
        runs = self._runs
        if space and (runs or self._rendered) and not (runs and runs[-1][2] == LINE_BREAK):
            line = f" {line}"
        flags = self._flags
        runs.append((CODE if flags & CODE else flags, self._link, line))
        if len(runs) > _MAX_RUNS or len(line) > _LONG_RUN:
            runs[-1] = (0, None, line)  # what follows decides whether emphasis could end here
            self._rendered.append(inline_markdown(runs))
            self._runs = [(0, None, "")]

    def _add_image(self) -> None:
        image, self._image = self._image, ""
        self._append(image, space=True)
        self._space = True

    def _structure(self, kind: str, name: str, end: str, attributes: str) -> None:
        """Start or end a block with a meaning of its own."""
        if kind == "code":
            self._end_preformatted()
        self.end_block()
        self._heading = 0
        if kind == "table":
            self._table_part(name, end)
            return
        self._blocks.abandon_table()
        if kind == "heading" and not end:
            self._heading = int(name[1])
        elif kind == "code" and not end:
            self._preformatted = []
        elif kind == "nesting":
            if end:
                self._blocks.end(name)
            else:
                self._blocks.start(name, _first_number(attributes) if name == "ol" else None)

    def _table_part(self, name: str, end: str) -> None:
        blocks = self._blocks
        match name, bool(end):
            case "table", False:
                blocks.start_table()
            case "table", True:
                blocks.end_table()
            case "tr", False:
                blocks.start_row()
            case _, False:
                blocks.start_cell(header=name == "th")
            case _, True:
                blocks.end_cell()

    def _end_preformatted(self) -> None:
        pieces, self._preformatted = self._preformatted, None
        if pieces:
            self._blocks.code("".join(pieces))

    def _count_flag(self, flag: int, change: int) -> None:
        count = max(0, self._counts[flag] + change)
        self._counts[flag] = count
        self._flags = self._flags | flag if count else self._flags & ~flag

    def _target(self, href: str | None) -> str | None:
        link = text_link(href, self._base) if href else None
        if href and link and len(link) > len(href):
            self._links_left -= len(link) - len(href)
            if self._links_left < 0:
                return None
        return link

    def _read_image(self, attributes: str) -> None:
        text = attribute(attributes, "alt")
        line = storable_line(text, _MAX_ALT_LENGTH) if text else ""
        if not line or len(self._image) > _MAX_ALT_LENGTH:
            return
        self._image = f"{self._image} {line}" if self._image else line
        if self._space or not (self._runs or self._rendered):
            self._add_image()

    def _break_line(self, end: str) -> None:
        """End the line; a second break ends the paragraph."""
        if self._image:
            self._add_image()
        self._space = bool(end)  # in XML, a break has an end tag too
        if end:
            return
        if not self._runs:
            return
        if self._runs[-1][2] == LINE_BREAK:
            self.end_block()
        else:
            self._runs.append((0, self._link, LINE_BREAK))


def _first_number(attributes: str) -> int:
    start = attribute(attributes, "start") or "1"
    return int(start) if start.isdecimal() and len(start) <= _MAX_START else 1
