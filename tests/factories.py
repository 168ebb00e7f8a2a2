"""Factories of model objects with defaults; a test sets only the fields it is about."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from headwater.app import limits_from
from headwater.fetch.net.limits import Limits
from headwater.model import Entry, Post, Source, SourceType, Subject
from headwater.rules.admission import content_hash, timed_id
from headwater.rules.policy import Policy
from headwater.settings import load_settings

NOW = datetime(2026, 2, 17, 12, 0, tzinfo=UTC)
CREATED_AT = datetime(2026, 2, 14, 9, 0, tzinfo=UTC)  # later than the oldest date of D2 at NOW
FEED_URL = "https://feeds.example.org/news.xml"


def a_policy(**changes: Any) -> Policy:
    """The default settings, with the given changes."""
    return replace(Policy(), **changes)


def client_limits(**changes: Any) -> Limits:
    """The limits of the HTTP client by default settings, with the given changes."""
    return replace(limits_from(load_settings(environ={})), **changes)


def a_source(**changes: Any) -> Source:
    """An enabled feed that was never polled, with the given changes."""
    plain = Source(
        id="11111111-1111-4111-8111-111111111111",
        podcast_id="default",
        type=SourceType.RSS,
        url=FEED_URL,
        created_at=CREATED_AT,
    )
    return replace(plain, **changes)


def a_subject(
    source: Source | None = None,
    *,
    user_id: str = "default",
    max_article_age_days: int | None = None,
    dedupe_across_sources: bool = False,
    **changes: Any,
) -> Subject:
    """A source as a poll reads it: the given one, or one with these changes."""
    return Subject(
        source=a_source(**changes) if source is None else replace(source, **changes),
        user_id=user_id,
        max_article_age_days=max_article_age_days,
        dedupe_across_sources=dedupe_across_sources,
    )


def an_entry(name: str = "first", **changes: Any) -> Entry:
    """An entry published at NOW; `name` is part of every field that identifies it."""
    plain = Entry(
        id=f"tag:example.org,2026:{name}",
        title=f"The {name} title",
        url=f"https://example.org/{name}",
        published_at=NOW,
        author="Ada",
        body=f"The {name} body.",
    )
    return replace(plain, **changes)


def a_post(name: str = "first", **changes: Any) -> Post:
    """A post published and stored at NOW; id and hash follow from its content."""
    plain = Post(
        id="",
        source_id=a_source().id,
        title=f"The {name} title",
        body=f"The {name} body.",
        url=f"https://example.org/{name}",
        published_at=NOW,
        author="Ada",
        content_hash="",
        created_at=NOW,
    )
    post = replace(plain, **changes)
    digest = post.content_hash or content_hash(post.body)
    post_id = post.id or timed_id(post.created_at, post.source_id, digest)
    return replace(post, id=post_id, content_hash=digest)
