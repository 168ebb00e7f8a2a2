"""Response models of podcasts and of filters."""

from typing import Self

from pydantic import Field

from headwater.api.schemas.outputs import Moment, PodcastKey, ResponseModel, UserKey
from headwater.operations.podcast_views import ListedPodcast
from headwater.store.aggregation import MAX_PENDING


class FilterMatchesOut(ResponseModel):
    """The stored posts that one filter hides."""

    matched: int = Field(description="How many posts it hides.")
    last_title: str | None = Field(
        description="The title of the newest of them.", examples=["Sponsored: a new boat"]
    )
    last_at: Moment | None = Field(description="When that post was stored.")


class FilterStatsOut(ResponseModel):
    """What filters hide."""

    keep: FilterMatchesOut | None = Field(description="By `keep`; null: there is no such filter.")
    block: FilterMatchesOut | None = Field(description="By `block`; null: there is no such filter.")


class FilterEffectOut(ResponseModel):
    """What filters would change among the posts that are in no article."""

    hidden: int = Field(description="Posts that would be hidden.", examples=[12])
    shown: int = Field(description="Hidden posts that would reappear.", examples=[0])
    titles: tuple[str, ...] = Field(
        description="The titles of the newest ten that would be hidden.",
        examples=[["Sponsored: a new boat"]],
    )
    checked: int = Field(description="Number of posts that were evaluated.", examples=[480])
    is_complete: bool = Field(
        description="Whether these are all; false: only the newest were evaluated."
    )


class PodcastOut(ResponseModel):
    """A podcast."""

    id: PodcastKey = Field(description="The id. Paths accept the id or the name.")
    user_id: UserKey = Field(description="The user it belongs to.")
    name: str = Field(description="The name, unique for its user.", examples=["default"])
    max_article_age_days: int | None = Field(
        description="Older posts and articles are deleted; null: as configured.", examples=[None]
    )
    dedupe_across_sources: bool = Field(
        description="Whether entries are skipped that another source of the podcast has stored."
    )
    stories: bool = Field(
        description="Whether aggregation and the dashboard take a story once that several "
        "sources report in the same words."
    )
    keep: str | None = Field(
        description="A query; posts that do not match it are hidden.", examples=["bank OR rates"]
    )
    block: str | None = Field(
        description="A query; posts that match it are hidden.", examples=["title:sponsored"]
    )
    filter_stats: FilterStatsOut | None = Field(
        default=None, description="What its filters hide; null in lists."
    )
    aggregate_automatically: bool = Field(
        description="Whether articles are made of new posts at every tick."
    )
    pending_posts: int = Field(
        description=f"Number of posts that the next aggregation uses; at most {MAX_PENDING:,}.",
        examples=[12],
    )
    created_at: Moment = Field(description="When it was added.")

    @classmethod
    def of(cls, listed: ListedPodcast) -> Self:
        """A podcast with its pending posts."""
        return cls.combined(listed.podcast, pending_posts=listed.pending_posts)
