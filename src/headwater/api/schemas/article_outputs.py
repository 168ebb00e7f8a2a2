"""Responses about articles: aggregation, marks, undo, batches (A1, A3, E1, E4)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Self

from pydantic import Field

from headwater.api.schemas.outputs import ArticleOut, Moment, ResponseModel
from headwater.model import Article


class AggregationOut(ResponseModel):
    """The result of an aggregation."""

    created: int = Field(description="Number of articles created.")
    linked_posts: int = Field(description="Number of posts in these articles.")
    items: tuple[ArticleOut, ...] = Field(description="The articles created.")

    @classmethod
    def of(  # type: ignore[override]
        cls, created: int, linked_posts: int, articles: Sequence[Article], age: timedelta
    ) -> Self:
        """An aggregation with articles of a podcast with this age limit."""
        items = tuple(ArticleOut.of(article, age) for article in articles)
        return cls(created=created, linked_posts=linked_posts, items=items)


class MarkingOut(ResponseModel):
    """The result of marking articles as processed."""

    marked: int = Field(description="Number of articles marked by this call.")
    already: int = Field(description="Number of articles that were processed before.")
    missing: tuple[str, ...] = Field(
        description="Ids that do not exist, if `skipMissing` was set.", examples=[[]]
    )


class UndoOut(ResponseModel):
    """The result of an undo."""

    unmarked: int = Field(description="Number of articles that were processed and no longer are.")
    already: int = Field(description="Number of articles that were not processed.")
    deleted_digests: int = Field(description="Number of these that were digests: they are deleted.")
    freed_posts: int = Field(
        description="Number of posts in them; the next aggregation uses these."
    )


class AnnotatedOut(ResponseModel):
    """The result of changing many articles."""

    changed: int = Field(description="Number of articles in the request.", examples=[2])


class ProcessedBatchOut(ResponseModel):
    """Articles that were marked as processed with the same name."""

    name: str = Field(description="The name.", examples=["episode 12"])
    articles: int = Field(description="Number of articles.", examples=[14])
    processed_at: Moment = Field(description="When the last one was marked.")
