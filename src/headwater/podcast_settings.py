"""A podcast and its settings, each declared once: for the API and for configuration files."""

from dataclasses import dataclass
from datetime import datetime

from headwater.source_settings import declared_settings, setting


@dataclass(frozen=True, slots=True)
class Podcast:
    """A set of sources whose posts become articles."""

    id: str
    user_id: str
    name: str
    created_at: datetime
    max_article_age_days: int | None = setting(
        None,
        label="Age limit",
        description="Older posts and articles are deleted.",
        when_null="as configured",
        example=14,
        unit="days",
        minimum=1,
        maximum=100_000,
    )
    dedupe_across_sources: bool = setting(
        False,
        label="Deduplicate",
        description="Skip entries that another source of the podcast has stored.",
        example=True,
    )
    stories: bool = setting(
        True,
        label="Stories",
        description="Take a story once in aggregation and on the dashboard that several sources "
        "report in the same words.",
        example=False,
    )
    aggregate_automatically: bool = setting(
        False,
        label="Automatic articles",
        description="Make articles of new posts at every tick.",
        example=True,
    )
    keep: str | None = setting(
        None,
        label="Keep",
        description="A query. Posts that do not match it are stored but hidden.",
        when_null="none",
        example="bank OR rates",
        max_length=1000,
        is_query=True,
    )
    block: str | None = setting(
        None,
        label="Block",
        description="A query. Posts that match it are stored but hidden.",
        when_null="none",
        example="title:sponsored",
        max_length=1000,
        is_query=True,
    )


PODCAST_SETTINGS = declared_settings(Podcast)
