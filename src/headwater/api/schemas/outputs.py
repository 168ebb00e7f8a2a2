"""Response models: camelCase names, timestamps in UTC with milliseconds."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema, create_model
from pydantic.alias_generators import to_camel

from headwater.model import (
    Article,
    Completeness,
    FilteredBy,
    Post,
    SourceType,
    TextFrom,
    TokenScope,
)
from headwater.operations.opml_import import ImportOutcome
from headwater.rules.admission import timestamp
from headwater.rules.retention import article_expires_at, post_expires_at
from headwater.rules.text_diff import DiffOp
from headwater.store.tokens import ListedToken

EXAMPLE_FEED = "https://example.org/feed.xml"
EXAMPLE_SOURCE = "5b0b4a3e-8f0c-4a52-9d3e-2f6f1c9a7e10"
EXAMPLE_POST = "019c6513-d000-8a41-b7de-51f0c2a9e874"
EXAMPLE_STORY = "019c6513-d000-8c07-a2e3-90d15be4f6a1"
EXAMPLE_TOKEN_ID = "c3a1f1de-7e4c-4f0b-8f6e-5d2c9b7a4e31"  # noqa: S105 - no secret
EXAMPLE_ARTICLE = "019c6513-d000-8f0e-9c55-0a4be1d37f26"

SCOPES = (
    "What it permits: `admin` everything, `user` everything with the data of one user, `read` "
    "reading the data of one user or, without a user, of all, `metrics` reading `/metrics`."
)
Moment = Annotated[
    datetime,
    PlainSerializer(timestamp, return_type=str),
    WithJsonSchema(
        {"type": "string", "format": "date-time", "examples": ["2026-02-16T08:00:00.000Z"]},
        mode="serialization",
    ),
]
UserKey = Annotated[str, Field(examples=["default"])]
PodcastKey = Annotated[str, Field(examples=["default"])]
SourceKey = Annotated[str, Field(examples=[EXAMPLE_SOURCE])]
FeedUrl = Annotated[str, Field(examples=[EXAMPLE_FEED])]
PageUrl = Annotated[str, Field(examples=["https://example.org/2026/rivers"])]
Title = Annotated[str, Field(examples=["More water than last year"])]


class ApiModel(BaseModel):
    """A model whose schema is called `User` or `UserInput` if its class is UserOut or UserIn."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        name = cls.__name__.removesuffix("Out")
        cls.__name__ = cls.__qualname__ = re.sub("In$", "Input", name)


class ResponseModel(ApiModel):
    """Base of all response models."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        from_attributes=True,
        frozen=True,
        json_schema_serialization_defaults_required=True,  # responses have all their fields
        populate_by_name=True,
    )

    @classmethod
    def of(cls, value: Any) -> Self:
        """The model with the attributes of a domain object."""
        return cls.model_validate(value)

    @classmethod
    def combined(cls, *values: Any, **fields: Any) -> Self:
        """The model with these fields and attributes of objects; the first that has one counts."""
        own: dict[str, Any] = {}
        for value in reversed(values):
            own |= {name: getattr(value, name) for name in cls.model_fields if hasattr(value, name)}
        return cls.model_validate(own | fields)

    def plain(self) -> dict[str, Any]:
        """The model as JSON values."""
        return self.model_dump(mode="json", by_alias=True)


Model = TypeVar("Model", bound=BaseModel)


def with_fields(model: type[Model], fields: Mapping[str, tuple[Any, Any]]) -> type[Model]:
    """The model with further fields, each a type and a default or `Field(...)`."""
    definitions: dict[str, Any] = dict(fields)
    return create_model(
        model.__name__,
        __base__=model,
        __module__=model.__module__,
        __doc__=model.__doc__,
        **definitions,
    )


class ArticleSourceOut(ResponseModel):
    """The source of an article."""

    id: SourceKey = Field(description="The id.")
    label: str | None = Field(
        description="Its label, else the name that it gives itself.", examples=["Rivers"]
    )
    type: SourceType = Field(description="What it is.", examples=["rss"])
    url: FeedUrl = Field(description="Its address.")


class AlsoFromOut(ResponseModel):
    """Another post that reports the same story."""

    post_id: str = Field(description="The post.", examples=[EXAMPLE_POST])
    source: ArticleSourceOut = Field(description="Its source.")
    link: PageUrl = Field(description="Where it was published.")
    timestamp: Moment = Field(description="When it was published, else when it was stored.")


class ContentOut(ResponseModel):
    """The fields that posts and articles share."""

    id: str
    source_id: SourceKey = Field(description="The source it came from.")
    title: Title = Field(description="The title as plain text.")
    body: str = Field(
        description="The text without markup.",
        examples=["The river has more water than last year."],
    )
    markdown: str | None = Field(
        description="The text with its structure: headings, lists, quotes, code, tables, emphasis "
        "and links. null: stored by an earlier version, or very long; use `body`.",
        examples=["The river has **more water** than [last year](https://example.org/2025)."],
    )
    url: PageUrl = Field(description="Where it was published.")
    published_at: Moment | None = Field(description="When it was published; null: unknown.")
    author: str | None = Field(description="The author.", examples=["Ann Example"])
    content_hash: str = Field(
        description="SHA-256 of the content; unique within a source.",
        examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
    )
    created_at: Moment = Field(description="When it was stored.")
    expires_at: Moment | None = Field(
        description="When cleanup deletes it; null: not while it is processed, or in an article."
    )
    score: float | None = Field(
        description="A number that a client has set; polls never change it.", examples=[0.75]
    )
    annotations: dict[str, Any] | None = Field(
        description="A JSON object that a client has set.", examples=[{"topic": "rivers"}]
    )
    also_from: tuple[AlsoFromOut, ...] = Field(
        description="Other posts of the podcast that report the same story in the same words, "
        "earliest first; at most 50."
    )


class EnclosureOut(ResponseModel):
    """A file that belongs to a post, such as an episode."""

    url: str = Field(description="Its address.", examples=["https://example.org/rivers.mp3"])
    type: str | None = Field(description="Its media type.", examples=["audio/mpeg"])
    length: int | None = Field(description="Its size in bytes.", examples=[12_345_678])


class MetadataOut(ResponseModel):
    """What posts and previewed entries have besides their text."""

    enclosures: tuple[EnclosureOut, ...] = Field(description="Files that belong to it; at most 16.")
    categories: tuple[str, ...] = Field(
        description="Its categories; at most 32.", examples=[["Rivers"]]
    )
    language: str | None = Field(
        description="Its language, else that of the feed or page.", examples=["en-GB"]
    )
    image_url: str | None = Field(
        description="Its image.", examples=["https://example.org/river.jpg"]
    )
    completeness: Completeness | None = Field(
        description="Whether the text is the whole story, an excerpt, or unknown; null: stored by "
        "an earlier version.",
        examples=["full"],
    )


class PostOut(ContentOut, MetadataOut):
    """A post."""

    id: Annotated[str, Field(examples=[EXAMPLE_POST])] = Field(
        description="The id. Ids sort by publication time, then by `seq`."
    )
    seq: int | None = Field(
        description="A number that increases as posts are stored, oldest first within a poll; "
        "null: stored by an earlier version and not numbered yet.",
        examples=[4711],
    )
    text_from: TextFrom | None = Field(
        description="Where the text was read; null: stored by an earlier version.",
        examples=["feed"],
    )

    @classmethod
    def of(cls, post: Post, age: timedelta) -> Self:  # type: ignore[override]
        """A post of a podcast with this age limit."""
        return cls.combined(post, expires_at=post_expires_at(post, age))

    full_text_error: str | None = Field(
        description="Why the text of its page is not used although the source has `fullText`; "
        "null: it is used, still to be read, or not wanted.",
        examples=[None],
    )
    story_id: str | None = Field(
        description="Posts of the podcast that report the same story in the same words have the "
        "same one; null: no other post does, or it was stored a moment ago.",
        examples=[EXAMPLE_STORY],
    )
    filtered_by: FilteredBy | None = Field(
        description="The filter that hides it; null: none does.", examples=[None]
    )


class DiffPartOut(ResponseModel):
    """Consecutive sentences of one or both versions."""

    op: DiffOp = Field(description="Which version has it.", examples=["added"])
    text: str = Field(description="The sentences.", examples=["The bridge is open again."])


class DiffOut(ResponseModel):
    """What changed since the previous version of a page."""

    from_: str | None = Field(
        alias="from", description="The post that is the previous version.", examples=[EXAMPLE_POST]
    )
    parts: tuple[DiffPartOut, ...] = Field(description="Both versions, in order.")


class ArticleOut(ContentOut):
    """An article."""

    id: Annotated[str, Field(examples=[EXAMPLE_ARTICLE])] = Field(
        description="The id. Ids sort by publication time, then in the order of their posts."
    )
    seq: int | None = Field(
        description="A number that increases as posts and articles are stored; null: stored by an "
        "earlier version and not numbered yet.",
        examples=[4712],
    )
    source: ArticleSourceOut | None = Field(
        description="Its source; null: it cannot be read from the database."
    )
    is_processed: bool = Field(description="Whether it was marked as processed.")
    batch: str | None = Field(
        description="The name that it was marked as processed with.", examples=["episode 12"]
    )
    post_ids: tuple[str, ...] = Field(
        description="The posts it was made from.", examples=[[EXAMPLE_POST]]
    )
    follow_up_of: str | None = Field(
        description="The article with the posts of the same thread before these; null: there is "
        "none, or it was deleted.",
        examples=[None],
    )

    @classmethod
    def of(cls, article: Article, age: timedelta) -> Self:  # type: ignore[override]
        """An article of a podcast with this age limit."""
        return cls.combined(article, expires_at=article_expires_at(article, age))


class UserOut(ResponseModel):
    """A user."""

    id: UserKey = Field(description="The id. Paths accept the id or the name.")
    name: str = Field(description="The unique name.", examples=["default"])
    created_at: Moment = Field(description="When the user was added.")


class TokenOut(ResponseModel):
    """An access token without its secret."""

    id: Annotated[str, Field(examples=[EXAMPLE_TOKEN_ID])] = Field(description="The id.")
    name: str = Field(description="The name.", examples=["laptop"])
    scope: TokenScope = Field(description=SCOPES, examples=["read"])
    user: str | None = Field(
        description="The name of the user whose data it is for; null: of all users.",
        examples=["default"],
    )
    user_id: str | None = Field(description="The id of that user.", examples=["default"])
    created_at: Moment = Field(description="When it was created.")
    expires_at: Moment | None = Field(description="From when on it is refused; null: never.")
    last_used_at: Moment | None = Field(
        description="When it was last used, to a minute; null: never."
    )

    @classmethod
    def of(cls, listed: ListedToken) -> Self:
        """A token with the name of its user."""
        return cls.combined(listed.token, user=listed.user)


class NewTokenOut(TokenOut):
    """A token that was just created, with its secret."""

    token: str = Field(
        description="The secret, which no other response contains.",
        examples=["hw_q7J0p5h8YfVn3eK2mB1cX4zA6sD9gL0tRwUiOyPaSdE"],
    )

    @classmethod
    def of(cls, listed: ListedToken, secret: str = "") -> Self:
        """A new token with its secret."""
        return cls.combined(listed.token, user=listed.user, token=secret)


class SavedSearchOut(ResponseModel):
    """A saved search."""

    name: str = Field(description="The name.", examples=["rates"])
    query: str = Field(description="The query.", examples=["title:rates -podcast"])
    feed_token: str = Field(
        description="Permits reading the feed of this search, and nothing else.",
        examples=["hwf_q7J0p5h8YfVn3eK2mB1cX4zA6sD9gL0t"],
    )
    created_at: Moment = Field(description="When it was saved.")


class AuditEntryOut(ResponseModel):
    """A change that a person has made, or a login."""

    at: Moment = Field(description="When.")
    who: str = Field(
        description="Who: `token NAME`, for a user's `token NAME of USER`; `command line`; "
        "`loopback`: someone on this machine, without tokens; `address …` of a failed login.",
        examples=["token laptop"],
    )
    action: str = Field(description="What was done.", examples=["source.edit"])
    target: str = Field(description="What it was done to.", examples=[f"source {EXAMPLE_SOURCE}"])
    detail: str = Field(
        description="Further values, without secrets.", examples=["pollIntervalMinutes=120"]
    )


class KeyOut(ResponseModel):
    """An API key of a user at a provider, without the key itself."""

    provider: str = Field(description="The provider that the key is for.", examples=["x"])
    sources_requested: int | None = Field(
        default=None,
        description="Number of sources that needed the key and are polled now; else null.",
    )


class ImportedOut(ResponseModel):
    """The result for one feed of an OPML file."""

    url: FeedUrl = Field(description="The address in the file.")
    outcome: ImportOutcome = Field(description="What was done.")
    source_id: str | None = Field(description="The source.", examples=[EXAMPLE_SOURCE])
    error: str | None = Field(description="Why it was not added.", examples=[None])


class ImportOut(ResponseModel):
    """The result of an import, feed by feed."""

    items: tuple[ImportedOut, ...] = Field(description="The outlines with an `xmlUrl`, in order.")
