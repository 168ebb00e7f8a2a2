"""The shapes of what is taken: camelCase, strict types, and no field that nobody knows."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from headwater.api.schemas import PodcastOut, Shape, SourceOut, UserOut
from headwater.model import SourceType


def storable(text: str) -> str:
    """Text that both databases can keep: no control characters, no halves of characters (M6)."""
    if not text.isprintable():
        raise ValueError("control characters and broken characters cannot be stored")
    return text


Line = Annotated[str, AfterValidator(storable)]
Name = Annotated[Line, Field(min_length=1, max_length=200)]


class Given(BaseModel):
    """Something that is taken. What a response adds to it is accepted and ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, strict=True, validate_by_name=False
    )
    answer: ClassVar[type[Shape] | None] = None  # the shape whose other fields are ignored

    @model_validator(mode="before")
    @classmethod
    def _without_what_cannot_be_written(cls, body: Any) -> Any:
        """GET, edit, PUT must work, so fields that only responses have are passed over."""
        if cls.answer is None or not isinstance(body, Mapping):
            return body
        taken = {field.alias for field in cls.model_fields.values()}
        shown = {field.alias for field in cls.answer.model_fields.values()}
        return {name: value for name, value in body.items() if name not in shown - taken}

    def given(self) -> dict[str, Any]:
        """The fields that were given, by their names in Python."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class UserIn(Given):
    """A user as they shall be."""

    answer = UserOut
    name: Name


class PodcastIn(Given):
    """A podcast as it shall be."""

    answer = PodcastOut
    name: Name
    max_article_age_days: Annotated[int, Field(ge=1, le=36_500)] | None = None
    dedupe_across_sources: bool = False


class ApiKeyIn(Given):
    """A user's key at a provider."""

    api_key: Annotated[str, Field(min_length=1, max_length=4096)]


class SourceOptions(Given):
    """What may be set of a source besides its type and URL."""

    answer = SourceOut
    label: Annotated[Line, Field(max_length=500)] | None = None
    enabled: bool | None = None
    poll_interval_minutes: Annotated[int, Field(ge=1, le=525_600)] = 30
    poll_delay_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = None
    max_failures: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    max_backoff_hours: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    late_entry_hours: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    aggregate: bool | None = None
    include_history: bool = False


Url = Annotated[Line, Field(min_length=1, max_length=8192)]
# strict types would ask for a SourceType, which JSON does not have
Type = Annotated[SourceType, Field(strict=False)]


class SourceIn(SourceOptions):
    """A source as it shall be."""

    type: Type
    url: Url


class SourcePatch(SourceOptions):
    """What shall change of a source."""

    type: Type | None = None
    url: Url | None = None
