"""The shapes of what is taken: camelCase, strict types, and no field that nobody knows."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema

from headwater.api.running import SchedulerOut
from headwater.api.schemas import PodcastOut, Shape, SourceOut, UserOut
from headwater.model import Health, SourceType
from headwater.operations.batches import BatchAction
from headwater.operations.people import MAX_AGE_DAYS
from headwater.rules.lines import is_one_line

ONE_LINE = r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]*$"

_MOST_FIELDS = 100


def storable(text: str) -> str:
    """Text that both databases can keep: no control characters, no halves of characters (M6)."""
    if not is_one_line(text):
        raise ValueError("control characters and broken characters cannot be stored")
    return text


class _Patterned:
    """Tells the OpenAPI document in its own words what `storable` asks for."""

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return handler(core) | {"pattern": ONE_LINE}


Line = Annotated[str, AfterValidator(storable), _Patterned()]
Name = Annotated[Line, Field(min_length=1, max_length=200)]


class Given(BaseModel):
    """Something that is taken. What a response adds to it is accepted and ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, strict=True, validate_by_name=False
    )
    answer: ClassVar[type[Shape] | None] = None  # the shape whose other fields are ignored

    @model_validator(mode="before")
    @classmethod
    def _as_it_can_be_written(cls, body: Any) -> Any:
        """GET, edit, PUT must work, so fields that only responses have are passed over."""
        if not isinstance(body, Mapping):
            return body
        if len(body) > _MOST_FIELDS:  # each one that nobody knows would be told
            raise ValueError(f"more than {_MOST_FIELDS} fields")
        shown = {} if cls.answer is None else cls.answer.model_fields
        ignored = {field.alias for field in shown.values()}
        ignored -= {field.alias for field in cls.model_fields.values()}
        return {name: _whole(value) for name, value in body.items() if name not in ignored}

    def given(self) -> dict[str, Any]:
        """The fields that were given, by their names in Python."""
        return {name: getattr(self, name) for name in self.model_fields_set}


def _whole(value: Any) -> Any:
    """In JSON 30.0 is an integer too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class UserIn(Given):
    """A user as they shall be."""

    answer = UserOut
    name: Name


class PodcastIn(Given):
    """A podcast as it shall be."""

    answer = PodcastOut
    name: Name
    max_article_age_days: Annotated[int, Field(ge=1, le=MAX_AGE_DAYS)] | None = None
    dedupe_across_sources: bool = False


class ApiKeyIn(Given):
    """A user's key at a provider."""

    api_key: Annotated[
        str,
        Field(min_length=1, max_length=4096, json_schema_extra={"pattern": r"^\s*[!-~]+\s*$"}),
    ]


class SourceOptions(Given):
    """What may be set of a source besides its type and URL."""

    answer: ClassVar[type[Shape] | None] = SourceOut
    label: Annotated[Line, Field(max_length=500)] | None = None
    enabled: bool = True
    poll_interval_minutes: Annotated[int, Field(ge=1, le=525_600)] = 30
    poll_delay_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = None
    max_failures: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    max_backoff_hours: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    late_entry_hours: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    aggregate: bool | None = None
    include_history: bool = False


Url = Annotated[Line, Field(min_length=1, max_length=8192)]
SourceKey = Annotated[str, Field(min_length=1, max_length=200, pattern="^[!-~]+$")]
# strict types would ask for a tuple; the first wrong one is told, not a hundred thousand
SourceKeys = Annotated[
    tuple[SourceKey, ...], Field(strict=False, fail_fast=True, max_length=100_000)
]
ArticleKey = Annotated[str, Field(min_length=1, max_length=200, pattern="^[!-~]+$")]
# strict types would ask for a SourceType, which JSON does not have
Type = Annotated[SourceType, Field(strict=False)]


class SourceNew(SourceOptions):
    """A source that is not there yet; without a type, X by its URL, else a feed."""

    type: Type | None = None
    url: Url


class SourceIn(SourceOptions):
    """A source as it shall be."""

    type: Type
    url: Url

    def whole(self) -> dict[str, Any]:
        """Every field: what is not given has its default, but `enabled` stays as it is."""
        kept = {"enabled"} - self.model_fields_set
        return {name: getattr(self, name) for name in SourceIn.model_fields if name not in kept}


def _without_defaults(schema: dict[str, Any]) -> None:
    """What is not given stays as it is, so a default would be a lie."""
    for field in schema["properties"].values():
        field.pop("default", None)


class SourcePatch(SourceOptions):
    """What shall change of a source; null takes an option back to its default."""

    model_config = ConfigDict(json_schema_extra=_without_defaults)
    type: Type = SourceType.RSS
    url: Url = ""


class SourceChanges(SourceOptions):
    """What shall change of many sources: anything but what tells them apart."""

    model_config = ConfigDict(json_schema_extra=_without_defaults)
    answer = None


class SourceFilterIn(Given):
    """Which sources are meant, as the list of sources filters them; null: no matter.

    A filter that says nothing is refused: all sources are meant by `all` alone.
    """

    enabled: bool | None = None
    type: Type | None = None
    health: Annotated[Health, Field(strict=False)] | None = None
    host: Annotated[Line, Field(max_length=300)] | None = None
    q: Annotated[Line, Field(max_length=500)] | None = None
    all: bool | None = None


class BatchIn(Given):
    """One action for many sources: those with these ids, or those that fit the filter."""

    action: Annotated[BatchAction, Field(strict=False)]
    ids: SourceKeys | None = None
    chosen: Annotated[SourceFilterIn | None, Field(alias="filter")] = None
    changes: Annotated[SourceChanges | None, Field(alias="set")] = None


class ArticleIdsIn(Given):
    """Which articles are meant."""

    ids: Annotated[tuple[ArticleKey, ...], Field(strict=False, fail_fast=True, max_length=10_000)]
    skip_missing: bool = False


class PreviewIn(Given):
    """What shall be looked at."""

    url: Url
    type: Type | None = None
    include_history: bool = False


class SwitchIn(Given):
    """How the scheduler shall be."""

    answer = SchedulerOut
    paused: bool
