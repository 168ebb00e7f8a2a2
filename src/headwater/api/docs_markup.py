"""Pieces of HTML for the page that explains the API; all text is escaped on its way in."""

import html
import re
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"`([^`]+)`")


def prose(text: str, *, code: bool = True) -> str:
    """Text as markup; what stands between backticks becomes code."""
    escaped = html.escape(text)
    return _CODE.sub(r"<code>\1</code>", escaped) if code else escaped


def element(name: str, inside: str, **attributes: str) -> str:
    """An element around markup; `class_` and `aria_label` stand for what Python cannot say."""
    return f"<{name}{_written(attributes)}>{inside}</{name}>"


def details(line: str, inside: str, **attributes: str) -> str:
    """Something that unfolds below a line."""
    return element("details", element("summary", line) + inside, **attributes)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of markup; every cell knows the name of its column, for narrow screens."""
    head = element("tr", "".join(element("th", prose(name), scope="col") for name in heads))
    body = "".join(
        element(
            "tr",
            "".join(
                element("td", cell, data_label=name) for name, cell in zip(heads, row, strict=True)
            ),
        )
        for row in rows
    )
    return element("table", element("thead", head) + element("tbody", body))


def _written(attributes: dict[str, str]) -> str:
    return "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(value)}"'
        for name, value in attributes.items()
    )
