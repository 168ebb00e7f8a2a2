"""Conversion between rows and model objects; times are epoch milliseconds in both databases."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from headwater.errors import StoreError
from headwater.logs import get_logger
from headwater.model import (
    EPOCH,
    Article,
    Enclosure,
    Hold,
    Post,
    Redirect,
    Source,
    Validators,
    made,
)
from headwater.source_settings import SETTINGS, Setting

log = get_logger()
Model = TypeVar("Model")
Decoder = Callable[[Any], Any]
_UNKNOWN = Validators()
_PLAIN = frozenset({str, int, bool, bytes, NoneType})
_MILLISECOND = timedelta(milliseconds=1)
UNREADABLE = (ArithmeticError, LookupError, TypeError, ValueError)
_MAX_REASON = 200  # characters; the error may quote the value
MAX_LOGGED = 1000
_logged: set[tuple[str, Any]] = set()  # unreadable rows; logged once per opened database

# fields of a source with several columns; every other field has one of the same name
_FIELD_COLUMNS = {
    "validators": ("etag", "last_modified"),
    "hold": ("hold_until", "hold_set_at", "hold_reason"),
}
_SOURCE_FIELDS = ("id", *(field.name for field in fields(Source) if field.name != "id"))
SOURCE_COLUMNS = [c for name in _SOURCE_FIELDS for c in _FIELD_COLUMNS.get(name, (name,))]
_READ_APART = {"post_ids", "source", "also_from"}  # fields that are not columns
POST_COLUMNS = [f.name for f in fields(Post) if f.name not in _READ_APART]
ARTICLE_COLUMNS = [f.name for f in fields(Article) if f.name not in _READ_APART]
# columns of posts and articles that only clients or later steps change; new rows have the defaults
_SET_LATER = {"is_linked", "batch", "score", "annotations", "story_id"}
# characters of a row, by table
_TEXTS = {
    "articles": ("markdown", "annotations"),
    "posts": ("markdown", "page_text", "annotations"),
}
LENGTHS = {
    table: " + ".join(["length(body)", *(f"coalesce(length({one}), 0)" for one in texts)])
    for table, texts in _TEXTS.items()
}


def columns(names: Iterable[str], table: str = "") -> str:
    """A list of columns for a statement."""
    prefix = f"{table}." if table else ""
    return ", ".join(prefix + name for name in names)


def to_ms(moment: datetime) -> int:
    """A time as it is stored."""
    return (moment - EPOCH) // _MILLISECOND


def from_ms(value: int) -> datetime:
    """A time from its stored value."""
    return EPOCH + value * _MILLISECOND


def encoded(value: Any) -> Any:
    """The value of a field as its column stores it."""
    if type(value) in _PLAIN:  # most values of a row
        return value
    if isinstance(value, datetime):
        return to_ms(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return json.dumps(value, default=asdict) if value else None
    return json.dumps(asdict(value)) if is_dataclass(value) else value  # type: ignore[arg-type]


def _flag(value: Any) -> bool:
    return bool(int(value))  # SQLite stores numbers


# they raise an error for a value of another type, which any program can write into SQLite
_DECODERS: Mapping[Any, Decoder] = {
    datetime: from_ms,
    bool: _flag,
    int: int,
    float: float,
    str: str.__str__,
    Mapping[str, Any]: json.loads,
}


def decoder(kind: Any) -> Decoder | None:
    """A function that turns a column that is not NULL into a value of this type.

    None: the column has the value itself.
    """
    if isinstance(kind, UnionType):  # of a type and None
        kind = get_args(kind)[0]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {member.value: member for member in kind}.__getitem__
    return _DECODERS.get(kind)


def setting_decoder(setting: Setting) -> Decoder | None:
    """The same for a setting, which may be stored as JSON."""
    if setting.is_structured:
        return lambda text: setting.from_json(json.loads(text))
    return decoder(setting.kind)


class RowReader(Generic[Model]):
    """Makes objects of rows of a table; an unreadable row does not hide the others (H4)."""

    def __init__(
        self, table: str, decoders: Mapping[str, Decoder | None], make: Callable[..., Model]
    ) -> None:
        """`make` takes the decoded columns, which are named by `decoders` in their order."""
        self._table = table
        self._names = list(decoders)
        self._id_index = self._names.index("id") if "id" in decoders else 0
        self._decoders = list(decoders.values())
        self._make = make

    def one(self, row: Sequence[Any]) -> Model:
        """The object of one row; a StoreError that names the column if it is unreadable."""
        try:
            return self._read(row)
        except UNREADABLE as error:
            raise self._explained(row, error) from None  # the API shows the message

    def all(self, rows: Sequence[Sequence[Any]]) -> list[Model]:
        """The objects of rows; an unreadable one is left out and logged once."""
        try:
            return [self._read(row) for row in rows]
        except UNREADABLE:
            return [made for row in rows if (made := self._read_or_log(row)) is not None]

    def _read(self, row: Sequence[Any]) -> Model:
        pairs = zip(row, self._decoders, strict=False)  # the last fields may have defaults
        values = [v if v is None or decode is None else decode(v) for v, decode in pairs]
        return self._make(*values)

    def _read_or_log(self, row: Sequence[Any]) -> Model | None:
        try:
            return self._read(row)
        except UNREADABLE as error:
            key = (self._table, row[self._id_index])
            if key not in _logged and len(_logged) < MAX_LOGGED:
                _logged.add(key)
                column, reason = self._cause(row, error)
                log.warning(
                    "[Store] unreadable row",
                    table=self._table, id=key[1], column=column, error=reason,
                )  # fmt: skip
            return None

    def _explained(self, row: Sequence[Any], error: Exception) -> StoreError:
        column, reason = self._cause(row, error)
        place = f"row {row[self._id_index]} of the table {self._table}"
        return StoreError(f"{place} cannot be read: column {column}: {reason}")

    def _cause(self, row: Sequence[Any], error: Exception) -> tuple[str, str]:
        """The first column that cannot be decoded, and why."""
        column = "unknown"
        for name, value, decode in zip(self._names, row, self._decoders, strict=False):
            try:
                if value is not None and decode is not None:
                    decode(value)
            except UNREADABLE as found:
                column, error = name, found
                break
        return column, repr(error)[:_MAX_REASON]


def unreadable_rows() -> list[tuple[str, str]]:
    """Table and id of the unreadable rows that were found so far, at most MAX_LOGGED."""
    return sorted((table, str(id_)) for table, id_ in _logged)


def log_unreadable_rows_again() -> None:
    """Log each unreadable row again: another database is opened."""
    _logged.clear()


def row_reader(kind: type[Model], table: str) -> RowReader[Model]:
    """A reader of rows whose columns are the fields of a type in order."""
    hints = get_type_hints(kind)
    return RowReader(table, {name: decoder(hint) for name, hint in hints.items()}, kind)


def _source_decoder(column: str) -> Decoder | None:
    if column in SETTINGS:
        return setting_decoder(SETTINGS[column])
    if column == "seen_keys":
        return lambda text: tuple(json.loads(text))
    if column == "redirect":
        return _redirect
    return decoder(_COLUMN_TYPES.get(column, str))


_COLUMN_TYPES = get_type_hints(Source) | {"hold_until": datetime, "hold_set_at": datetime}


def _redirect(text: str) -> Redirect:
    url, since, polls, is_suggested = json.loads(text)
    return Redirect(url, from_ms(since), polls, is_suggested)


def _source_of(*row: Any) -> Source:
    values = dict(zip(SOURCE_COLUMNS, row, strict=True))
    values["seen_keys"] = values["seen_keys"] or ()
    etag, last_modified = values.pop("etag"), values.pop("last_modified")
    values["validators"] = Validators(etag, last_modified) if etag or last_modified else _UNKNOWN
    values["hold"] = hold_of(
        values.pop("hold_until"), values.pop("hold_set_at"), values.pop("hold_reason")
    )
    return made(Source, values)


def row_of(source: Source, names: Iterable[str] = _SOURCE_FIELDS) -> dict[str, Any]:
    """The columns that store these fields of a source."""
    row: dict[str, Any] = {}
    for name in names:
        value = getattr(source, name)
        if name == "validators":
            row |= asdict(value)
        elif name == "hold":
            row["hold_until"] = value and to_ms(value.until)
            row["hold_set_at"] = value and to_ms(value.set_at)
            row["hold_reason"] = value and value.reason
        elif name == "redirect" and value is not None:
            since = to_ms(value.since)
            row[name] = json.dumps([value.url, since, value.polls, value.is_suggested])
        else:
            row[name] = encoded(value)
    return row


def changed_columns(before: Source, after: Source, fields: Collection[str]) -> dict[str, Any]:
    """The id, and the columns of these fields that differ: an untouched index costs nothing."""
    was = vars(before)
    return row_of(after, ["id", *(
        name for name, value in vars(after).items()
        if value is not was[name] and name in fields and value != was[name]
    )])  # fmt: skip


def _enclosures(text: str) -> tuple[Enclosure, ...]:
    return tuple(Enclosure(**each) for each in json.loads(text))


def _post_of(*row: Any) -> Post:
    post = Post(*row)
    # as for other light classes, only mypy forbids this (decision 17)
    post.enclosures = post.enclosures or ()  # type: ignore[misc]
    post.categories = post.categories or ()  # type: ignore[misc]
    return post


read_source = RowReader("sources", {c: _source_decoder(c) for c in SOURCE_COLUMNS}, _source_of)
read_post = RowReader(
    "posts",
    {name: decoder(hint) for name, hint in get_type_hints(Post).items()}
    | {"enclosures": _enclosures, "categories": lambda text: tuple(json.loads(text))},
    _post_of,
)
read_article = row_reader(Article, "articles")


_NEW_POST_COLUMNS = [name for name in POST_COLUMNS if name not in _SET_LATER | {"kept_until"}]
_NEW_ARTICLE_COLUMNS = [name for name in ARTICLE_COLUMNS if name not in _SET_LATER]


def row_of_post(post: Post) -> dict[str, Any]:
    """The columns of a new post."""
    return {name: encoded(getattr(post, name)) for name in _NEW_POST_COLUMNS}


def row_of_article(article: Article) -> dict[str, Any]:
    """The columns of a new article."""
    return {name: encoded(getattr(article, name)) for name in _NEW_ARTICLE_COLUMNS}


def hold_of(until: datetime | None, set_at: datetime | None, reason: str | None) -> Hold | None:
    """A hold from its three columns."""
    return None if until is None or set_at is None else Hold(until, set_at, reason or "")
