"""The settings of a source, each declared once.

The API, the command line, the dashboard's form, the OpenAPI document, docs/source-settings.md and
the database mapping are derived from `SETTINGS`. docs/architecture.md says how to add a setting.
"""

import json
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from enum import Enum, StrEnum
from typing import Any, Literal

from headwater.watch_settings import WatchSettings

SettingValues = Mapping[str, Any]  # by name: some or all settings of a source


class SourceType(StrEnum):
    """What a source is; selects the fetcher."""

    RSS = "rss"
    WEBSITE = "website"
    TWITTER = "twitter"


class FullText(StrEnum):
    """Whether the pages that the entries of a feed link to are read (T4)."""

    OFF = "off"
    ON = "on"


class AggregateBy(StrEnum):
    """Which posts of a source become one article (E3)."""

    SOURCE = "source"
    THREAD = "thread"


_KINDS = {int: "a whole number", bool: "true or false", str: "text"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: what its declaration says, then what `declared_settings` reads from the field.

    Kinds: `int` with a range, `bool`, `str` (one line), an enumeration, or a frozen dataclass that
    is stored as JSON text. Such a dataclass has JSON values and tuples of them, all with defaults
    and described in `field(metadata={"description": ...})`; its `__post_init__` raises ValueError
    for a wrong value. A bool that may be None is automatic if None.
    """

    label: str  # title of the form field, and of the row in `headwater show`
    description: str  # plain sentences for OpenAPI, the form, `--help` and the docs
    example: Any
    when_null: str = ""  # what applies if the value is null
    unit: str = ""  # of a number
    minimum: int = 0  # of a number
    maximum: int = 1_000_000
    max_length: int = 0  # of a text
    is_query: bool = False  # a text in the query language (B1)
    choices: Mapping[str, str] = field(default_factory=dict)  # form texts of an enumeration
    option: str = ""  # of the command line; derived from the name if empty
    on_command_line: bool = True
    form: Literal["main", "more", "none"] = "more"  # part of the dashboard's form
    in_batch: bool = True  # whether one batch may set it for many sources

    name: str = ""
    kind: type[Any] = object
    nullable: bool = False
    default: Any = ...  # `...`: a value is required

    @property
    def required(self) -> bool:
        """Whether every source must have its own value."""
        return self.default is ...

    @property
    def json_name(self) -> str:
        """The name in the API and in files."""
        first, *rest = self.name.split("_")
        return first + "".join(map(str.capitalize, rest))

    @property
    def is_structured(self) -> bool:
        """Whether the value is a dataclass, stored and typed in as JSON."""
        return self.kind not in (int, bool, str) and not issubclass(self.kind, Enum)

    @property
    def full_description(self) -> str:
        """The description with what null means."""
        return f"{self.description} null: {self.when_null}." if self.nullable else self.description

    def to_json(self, value: Any) -> Any:
        """A value as JSON has it."""
        return asdict(value) if self.is_structured and value is not None else value

    def from_json(self, value: Any) -> Any:
        """A typed value from what `to_json` returns, or a ValueError; ranges are not checked."""
        if value is None and self.nullable:
            return None
        if self.is_structured:
            return self._structure(value)
        if self.kind in (int, bool, str):
            if type(value) is not self.kind:
                raise ValueError(f"must be {_KINDS[self.kind]}, not {json.dumps(value)[:60]}")
            return value
        choices = [member.value for member in self.kind]
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}, not {json.dumps(value)[:60]}")
        return self.kind(value)

    def _structure(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError("must be a JSON object")  # noqa: TRY004 (validators take ValueError)
        known = [one.name for one in fields(self.kind)]
        for name in value:
            if name not in known:
                raise ValueError(f"there is no field {name!r}; there are {', '.join(known)}")
        lists_as_tuples = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
        return self.kind(**lists_as_tuples)

    def from_json_text(self, text: str) -> Any:
        """The same from JSON as a person wrote it; the error has an example."""
        try:
            return self.from_json(json.loads(text))
        except (ValueError, RecursionError) as error:
            reason = "" if isinstance(error, json.JSONDecodeError) else f" ({error})"
            raise ValueError(f"must be JSON such as {json.dumps(self.example)}{reason}") from error


def about(**declaration: Any) -> dict[str, Setting]:
    """The metadata of a dataclass field that is a setting; the arguments are those of Setting."""
    return {"setting": Setting(**declaration)}


def setting(default: Any, **declaration: Any) -> Any:
    """A dataclass field that is a setting with a default."""
    return field(default=default, metadata=about(**declaration))


@dataclass(frozen=True)
class SourceSettings:
    """What a person sets of a source; the base class of `model.Source`."""

    type: SourceType = field(
        metadata=about(
            label="Type",
            description="How the source is read. Another type clears its failures.",
            example="rss",
            choices={
                "rss": "Feed (RSS, Atom, JSON)",
                "website": "Website",
                "twitter": "X timeline",
            },
            form="main",
            in_batch=False,
        )
    )
    url: str = field(
        metadata=about(
            label="Address",
            description="The URL, or @name for X. Another address clears the failures of the "
            "source and requests a poll.",
            example="https://example.org/feed.xml",
            max_length=8192,
            form="main",
            in_batch=False,
        )
    )
    label: str | None = setting(
        None,
        label="Label",
        description="Name of the source in lists.",
        when_null="lists show the title that the feed or page has, else the address",
        example="Example",
        max_length=500,
        form="main",
    )
    folder: str | None = setting(
        None,
        label="Folder",
        description="Where the source is sorted in: a name, or a path such as News/Europe.",
        when_null="the source is in no folder",
        example="News/Europe",
        max_length=500,
    )
    enabled: bool = setting(
        True,
        label="Enabled",
        description="Whether the scheduler polls the source.",
        example=True,
        on_command_line=False,  # `headwater enable` and `disable`
        form="none",  # a button
    )
    poll_interval_minutes: int = setting(
        30,
        label="Interval",
        description="How often the source is polled. 30 minutes are usual, 1440 are a day.",
        example=30,
        unit="minutes",
        minimum=1,
        maximum=525_600,
        option="--interval",
        form="main",
    )
    poll_delay_seconds: int | None = setting(
        None,
        label="Delay",
        description="Pause after a poll of the source, before the next poll of its host.",
        when_null="the delay configured for its host or type, else 0",
        example=5,
        unit="seconds",
        maximum=86_400,
        option="--delay",
    )
    max_failures: int | None = setting(
        None,
        label="Failures until disabled",
        description="Permanent failures in a row, such as 404, that disable the source.",
        when_null="`app.source.max-failures`",
        example=10,
        minimum=1,
    )
    max_backoff_hours: int | None = setting(
        None,
        label="Longest backoff",
        description="The longest time between polls that failures can cause.",
        when_null="`app.source.max-backoff-hours`",
        example=48,
        unit="hours",
        minimum=1,
    )
    late_entry_hours: int | None = setting(
        None,
        label="Late entries",
        description="Also takes entries dated up to this long before the newest one seen.",
        when_null="`app.source.late-entry-hours`",
        example=24,
        unit="hours",
    )
    aggregate: bool | None = setting(
        None,
        label="Digests",
        description="Combine the posts of the source into one article.",
        when_null="only for X and for `app.source.aggregate-hosts`",
        example=False,
    )
    aggregate_by: AggregateBy = field(
        default=AggregateBy.SOURCE,
        metadata=about(
            label="One article for",
            description="Which posts become one article: all that wait (a digest), or those of a "
            "thread on X or Nitter. With threads, a post that is in none becomes an article of its "
            "own, and `aggregate: false` still makes one article of each post.",
            example="thread",
            choices={"source": "All posts that wait", "thread": "Each thread"},
        ),
    )
    include_history: bool = setting(
        False,
        label="Include history",
        description="Also take entries published before the source was added.",
        example=False,
    )
    full_text: FullText = field(
        default=FullText.OFF,
        metadata=about(
            label="Full text",
            description="Read the page that each new entry of a feed links to, at most 20 per "
            "poll, and use its text if it is longer than the feed's. Each page is one more "
            "request to its host.",
            example="on",
            choices={"off": "As the feed has it", "on": "Read the page of each entry"},
        ),
    )
    keep: str | None = setting(
        None,
        label="Keep",
        description="A query. Posts that do not match it are stored but hidden.",
        when_null="posts need not match anything",
        example="bank OR inflation",
        max_length=1000,
        is_query=True,
        form="none",  # a page of its own
    )
    block: str | None = setting(
        None,
        label="Block",
        description="A query. Posts that match it are stored but hidden.",
        when_null="no posts are blocked",
        example="title:sponsored OR is:excerpt",
        max_length=1000,
        is_query=True,
        form="none",  # a page of its own
    )
    watch: WatchSettings | None = field(
        default=None,
        metadata=about(
            label="Watched parts",
            description="Which parts of a web page are watched, which of its lines are ignored, "
            "and what its posts contain. Only for the type `website`.",
            when_null="the main text of the page",
            example={"include": ["main"], "exclude": [".comments"], "ignore": ["Updated * ago"]},
        ),
    )


def declared_settings(owner: type[Any]) -> dict[str, Setting]:
    """The settings that a dataclass declares, by field name, in order."""
    hints = typing.get_type_hints(owner)
    declared = [one for one in fields(owner) if "setting" in one.metadata]
    return {one.name: _declared(one, hints[one.name]) for one in declared}


def _declared(one: Field[Any], annotation: Any) -> Setting:
    kinds = typing.get_args(annotation) or (annotation,)  # of a union, or the only one
    (kind,) = (kind for kind in kinds if kind is not types.NoneType)
    declaration: Setting = one.metadata["setting"]
    return replace(
        declaration,
        name=one.name,
        kind=kind,
        nullable=types.NoneType in kinds,
        default=... if one.default is MISSING else one.default,
        option=declaration.option or f"--{one.name.replace('_', '-')}",
    )


SETTINGS = declared_settings(SourceSettings)
