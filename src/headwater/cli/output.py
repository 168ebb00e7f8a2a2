"""What commands print: tables on a terminal, tab-separated lines in a pipe, JSON on request."""

import json as json_
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Annotated, Any, TypeVar

import typer

from headwater.cli.columns import Cell, Column, Styled, flat
from headwater.rules.markdown_text import escaped

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
T = TypeVar("T")
_URL = re.compile(r"https?://[^\s<>]+")


def on_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def width() -> int:
    """Return the columns of the terminal."""
    return int(_terminal().console().width)


def say(*parts: Cell) -> None:
    """Print a line, without wrapping."""
    if on_terminal():
        _terminal().print_line(parts)
    else:
        sys.stdout.write("".join(map(flat, parts)) + "\n")


def note(text: str) -> None:
    """Print a line that is not part of the result, on standard error."""
    sys.stderr.write(f"{flat(text)}\n")


def confirm(question: str, *, yes: bool) -> None:
    """Ask on standard error, unless --yes is given; abort the command if the answer is no."""
    if not yes:
        typer.confirm(question, abort=True, err=True)


def show_json(document: object) -> None:
    """Print a JSON document."""
    text = json_.dumps(document, ensure_ascii=False, indent=2)
    sys.stdout.write(text.encode("utf-8", "replace").decode("utf-8") + "\n")


def show_items(
    columns: Sequence[Column[T]],
    items: Iterable[T],
    *,
    schema: str,
    json: bool,
    empty: str,
    context: Sequence[object] = (),
) -> None:
    """Print items as a table, or as JSON in a schema of the API, which may need some context."""
    if json:
        show_json([schema_json(schema, item, *context) for item in items])
    else:
        show_table(columns, items, empty=empty)


def schema_json(schema: str, *values: object) -> dict[str, Any]:
    """Return values as JSON in the schema of the API with this name."""
    # building them takes a while
    from headwater.api.schemas import (
        article_outputs,
        notices,
        outputs,
        podcast_outputs,
        service_outputs,
        source_outputs,
        webhooks,
    )

    modules = (
        source_outputs,
        article_outputs,
        podcast_outputs,
        outputs,
        service_outputs,
        webhooks,
        notices,
    )
    model = next(getattr(module, schema) for module in modules if hasattr(module, schema))
    document: dict[str, Any] = model.of(*values).plain()
    return document


def show_table(
    columns: Sequence[Column[T]], items: Iterable[T], *, empty: str = "", title: str = ""
) -> None:
    """Print items: drawn on a terminal, tab-separated with a heading line in a pipe."""
    rows = [[column.cell(item) for column in columns] for item in items]
    if not on_terminal():
        sys.stdout.write("\t".join(column.name.lower() for column in columns) + "\n")
        sys.stdout.writelines("\t".join(map(flat, row)) + "\n" for row in rows)
    elif rows:
        _terminal().print_table(columns, rows, title)
    else:
        say(Styled(empty, "dim"))


def show_fields(fields: Mapping[str, Cell | None], *, title: str) -> None:
    """Print one object field by field, without the fields that are None."""
    filled = {name: value for name, value in fields.items() if value is not None}
    if on_terminal():
        _terminal().print_fields(filled, title)
    else:
        sys.stdout.writelines(f"{name.lower()}\t{flat(v)}\n" for name, v in filled.items())


def show_document(title: str, fields: Mapping[str, str | None], markdown: str) -> None:
    """Print a text with its fields: rendered on a terminal, one Markdown document in a pipe."""
    if on_terminal():
        show_fields(fields, title=title)
        say("")
        _terminal().print_markdown(markdown)
        return
    head = [f"- {name}: {_as_markdown(value)}" for name, value in fields.items() if value]
    text = "\n".join([f"# {escaped(flat(title))}", "", *head, "", markdown, ""])
    sys.stdout.write(text.encode("utf-8", "replace").decode("utf-8"))


def _as_markdown(value: str) -> str:
    """Return a value on one line of a Markdown document, with its URLs as links."""
    lines = (
        f"<{line}>" if _URL.fullmatch(line) else escaped(flat(line)) for line in value.splitlines()
    )
    return ", ".join(lines)


def _terminal() -> ModuleType:
    from headwater.cli import terminal  # rich takes a while to import, and a pipe needs none of it

    return terminal
