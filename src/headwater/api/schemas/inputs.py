"""Request models: camelCase names, strict types, unknown fields refused."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema

from headwater.api.schemas.outputs import (
    SCOPES,
    ApiModel,
    Model,
    ResponseModel,
    SavedSearchOut,
    TokenOut,
    UserOut,
    with_fields,
)
from headwater.api.schemas.podcast_outputs import PodcastOut
from headwater.api.schemas.service_outputs import SchedulerOut, WorkerOut
from headwater.api.schemas.source_outputs import SourceCreatedOut
from headwater.model import PODCAST_SETTINGS, Health, SourceType, TokenScope
from headwater.operations.bulk_changes import BatchAction
from headwater.query.parser import MAX_QUERY
from headwater.rules.text_checks import is_one_line
from headwater.source_settings import SETTINGS, Setting

# what `storable` requires, for the JSON schema of a text
ONE_LINE = Field(json_schema_extra={"pattern": r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]*$"})
_MAX_FIELDS = 100


def storable(text: str) -> str:
    """The text, if both databases can store it: no control characters, no surrogates (M6)."""
    if not is_one_line(text):
        raise ValueError("control characters and broken characters cannot be stored")
    return text


class NullOmitted:
    """Removes null from the JSON schema of an optional parameter: no client can send it."""

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core)
        (other,) = (one for one in schema.pop("anyOf") if one != {"type": "null"})
        return {**schema, **other}


Line = Annotated[str, AfterValidator(storable), ONE_LINE]
Name = Annotated[Line, Field(min_length=1, max_length=200, examples=["ann"])]


def _moment(text: Any) -> datetime:
    """The time in UTC that an ISO 8601 text states."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError("must be a time with its offset, such as 2027-01-01T00:00:00Z")


TimeText = Annotated[
    datetime,
    BeforeValidator(_moment),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]


def _date_or_moment(text: Any) -> datetime:
    """The time that an ISO 8601 text states; a date is its start in UTC."""
    try:
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    except (TypeError, ValueError):
        pass
    try:
        return _moment(text)
    except ValueError:
        raise ValueError("must be a date or a time with its offset: 2027-01-31") from None


DateText = Annotated[
    datetime,
    BeforeValidator(_date_or_moment),
    WithJsonSchema({"type": "string", "examples": ["2027-01-31", "2027-01-31T08:00:00Z"]}),
]


class RequestModel(ApiModel):
    """Base of all request models. Fields that only the response has are ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, strict=True, validate_by_name=False
    )
    response_model: ClassVar[type[ResponseModel] | None] = None

    @model_validator(mode="before")
    @classmethod
    def _without_response_fields(cls, body: Any) -> Any:
        """Remove the fields that only responses have, so that GET, edit, PUT works."""
        if not isinstance(body, Mapping):
            return body
        if len(body) > _MAX_FIELDS:  # the error would list every unknown one
            raise ValueError(f"more than {_MAX_FIELDS} fields")
        served = {} if cls.response_model is None else cls.response_model.model_fields
        ignored = {field.alias for field in served.values()}
        ignored -= {field.alias for field in cls.model_fields.values()}
        return {name: _integral(value) for name, value in body.items() if name not in ignored}

    def given(self) -> dict[str, Any]:
        """The fields that the request contains, by their Python names, in declared order."""
        given = self.model_fields_set
        return {name: getattr(self, name) for name in type(self).model_fields if name in given}


def _integral(value: Any) -> Any:
    """The value; an integer if it is a number such as 30.0, which JSON does not distinguish."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# the parser checks it: its errors have a position (B1)
QueryLine = Annotated[str, Field(json_schema_extra={"maxLength": MAX_QUERY, "minLength": 1})]
FilterText = QueryLine | None


class SavedSearchIn(RequestModel):
    """A search to be saved."""

    response_model = SavedSearchOut
    name: Name = Field(description="A unique name without `/`, other than `.` and `..`.")
    query: QueryLine = Field(description="The query.", examples=["title:rates -podcast"])


class UserIn(RequestModel):
    """The settings of a user."""

    response_model = UserOut
    name: Name = Field(description="A unique name without `/`, other than `.` and `..`.")


class FiltersIn(RequestModel):
    """Filters to preview; one that is not given stays as it is."""

    keep: FilterText = Field(
        default=None,
        description="The query that posts must match; null: none.",
        examples=["bank OR rates"],
    )
    block: FilterText = Field(
        default=None,
        description="The query that posts must not match; null: none.",
        examples=["title:sponsored"],
    )


class ApiKeyIn(RequestModel):
    """A user's API key at a provider."""

    api_key: str = Field(
        min_length=1,
        max_length=4096,
        json_schema_extra={"pattern": r"^\s*[!-~]+\s*$"},
        description="The key. It is stored encrypted and never returned.",
    )


Id = Annotated[str, Field(min_length=1, max_length=200, pattern="^[!-~]+$")]
# not strict: JSON has lists, not tuples; fail_fast: report one wrong id, not a hundred thousand
SourceIds = Annotated[tuple[Id, ...], Field(strict=False, fail_fast=True, max_length=100_000)]


def with_settings(*settings: Setting) -> Callable[[type[Model]], type[Model]]:
    """Class decorator: add a field for each of these settings, checked strictly."""
    fields = {setting.name: _setting_field(setting) for setting in settings}
    return partial(with_fields, fields=fields)


def _setting_field(setting: Setting) -> tuple[Any, Any]:
    kind: Any
    if setting.kind is int:
        kind = Annotated[int, Field(ge=setting.minimum, le=setting.maximum)]
    elif setting.is_query:
        kind = QueryLine
    elif setting.kind is str:
        least = 0 if setting.nullable else 1  # characters
        kind = Annotated[Line, Field(min_length=least, max_length=setting.max_length)]
    elif setting.kind is bool:
        kind = bool
    elif setting.is_structured:
        kind = Annotated[setting.kind, BeforeValidator(setting.from_json)]
    else:  # strict types would ask for a member, which JSON does not have
        kind = Annotated[setting.kind, Field(strict=False)]
    about = Field(setting.default, description=setting.full_description, examples=[setting.example])
    return (kind | None if setting.nullable else kind), about


@with_settings(*PODCAST_SETTINGS.values())
class PodcastIn(RequestModel):
    """The settings of a podcast."""

    response_model = PodcastOut
    name: Name = Field(
        description="A name that is unique for the user, without `/`, other than `.` and `..`."
    )


_TYPE = SETTINGS["type"]
_WITHOUT_TYPE = "known by the address of a known site, else detected by a visit"
_DETECTED_TYPE = replace(_TYPE, nullable=True, default=None, when_null=_WITHOUT_TYPE)


@with_settings(*(SETTINGS | {"type": _DETECTED_TYPE}).values())
class SourceNew(RequestModel):
    """A source to add."""

    response_model = SourceCreatedOut


@with_settings(*SETTINGS.values())
class SourceIn(RequestModel):
    """All settings of a source."""

    response_model = SourceCreatedOut

    def all_settings(self) -> dict[str, Any]:
        """All settings: one that is not given has its default, but `enabled` stays as it is."""
        unchanged = {"enabled"} - self.model_fields_set
        return {name: getattr(self, name) for name in SETTINGS if name not in unchanged}


def without_defaults(schema: dict[str, Any]) -> None:
    """Remove the defaults: a setting that is not given keeps its value."""
    for field in schema["properties"].values():
        field.pop("default", None)


@with_settings(*(replace(s, default=None) if s.required else s for s in SETTINGS.values()))
class SourcePatch(RequestModel):
    """The settings of a source to change; null resets a setting that may be null."""

    model_config = ConfigDict(json_schema_extra=without_defaults)
    response_model = SourceCreatedOut


@with_settings(*(setting for setting in SETTINGS.values() if setting.in_batch))
class SourceChanges(RequestModel):
    """The settings to change of many sources: all but those that identify a source."""

    model_config = ConfigDict(json_schema_extra=without_defaults)


def _filter_rules() -> dict[str, Any]:
    """JSON schema: either `all` alone, or at least one of the other fields."""
    text = {"type": "string", "minLength": 1}
    criteria: dict[str, dict[str, Any]] = {
        "enabled": {"type": "boolean"},
        "type": {"type": "string"},
        "health": {"type": "string"},
        "host": text,
        "q": text,
    }
    everything = {"all": {"const": True}} | {name: {"type": "null"} for name in criteria}
    some = [{"required": [name], "properties": {name: shape}} for name, shape in criteria.items()]
    return {
        "oneOf": [
            {"required": ["all"], "properties": everything},
            {"properties": {"all": {"enum": [False, None]}}, "anyOf": some},
        ]
    }


class SourceFilterIn(RequestModel):
    """A selection of sources. A filter without any criterion is refused; see `all`."""

    model_config = ConfigDict(json_schema_extra=_filter_rules())
    enabled: bool | None = Field(default=None, description="Only sources that are enabled, or not.")
    type: Annotated[SourceType, Field(strict=False)] | None = Field(
        default=None, description="Only sources of this type."
    )
    health: Annotated[Health, Field(strict=False)] | None = Field(
        default=None, description="Only sources in this state."
    )
    host: Annotated[Line, Field(max_length=300)] | None = Field(
        default=None, description="Only sources of this host."
    )
    q: Annotated[Line, Field(max_length=500)] | None = Field(
        default=None, description="Only sources with this text in URL, label or folder."
    )
    all: bool | None = Field(
        default=None, description="Every source of the podcast; excludes other criteria."
    )


_BATCH_RULES: dict[str, Any] = {  # JSON schema: `ids` or `filter`; `set` for `update` only
    "oneOf": [
        {
            "required": ["ids"],
            "properties": {"ids": {"type": "array"}, "filter": {"type": "null"}},
        },
        {
            "required": ["filter"],
            "properties": {"ids": {"type": "null"}, "filter": {"type": "object"}},
        },
    ],
    "if": {"properties": {"action": {"const": "update"}}},
    "then": {"required": ["set"], "properties": {"set": {"type": "object", "minProperties": 1}}},
    "else": {"properties": {"set": {"type": "null"}}},
}


class BatchIn(RequestModel):
    """One action for many sources, selected by ids or by a filter."""

    model_config = ConfigDict(json_schema_extra=_BATCH_RULES)
    action: BatchAction = Field(strict=False, description="The action.")
    ids: SourceIds | None = Field(default=None, description="The ids of the sources.")
    chosen: SourceFilterIn | None = Field(
        default=None, alias="filter", description="Selects the sources; instead of `ids`."
    )
    changes: SourceChanges | None = Field(
        default=None, alias="set", description="The settings to change; for `update`."
    )


class TokenIn(RequestModel):
    """A new access token."""

    response_model = TokenOut
    name: Name = Field(description="A name to recognise it by.")
    scope: Annotated[TokenScope, Field(strict=False)] = Field(description=SCOPES)
    user: Annotated[Line, Field(min_length=1, max_length=200)] | None = Field(
        default=None,
        description="The id or name of the user whose data it is for: by default `default` for "
        "the scope `user`, all users for `read`, and with a user's token always that user. "
        "`admin` and `metrics` take none.",
    )
    expires_at: TimeText | None = Field(
        default=None,
        description="From when on it is refused; null: never, or as the token that creates it.",
        examples=["2099-01-01T00:00:00Z"],
    )


@with_settings(SETTINGS["url"], _DETECTED_TYPE, SETTINGS["include_history"], SETTINGS["watch"])
class PreviewIn(RequestModel):
    """The URL to preview."""


class DrainIn(RequestModel):
    """The wanted state of a worker."""

    response_model = WorkerOut
    worker: str = Field(description="The id of the worker, or its beginning.", min_length=1)
    draining: bool = Field(default=True, description="Whether it hands over its shards.")


class SchedulerIn(RequestModel):
    """The wanted state of the scheduler."""

    response_model = SchedulerOut
    paused: bool = Field(description="Whether only requested polls are made.")
