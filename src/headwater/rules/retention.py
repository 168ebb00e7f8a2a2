"""How long rows are kept, and when cleanup will delete posts and articles (C1, C2, E5).

Periods that users choose are configuration keys and settings of podcasts.
"""

from datetime import datetime, timedelta

from headwater.model import Article, Post

AUDIT_ENTRIES = timedelta(days=90)  # U9
CLOSED_INCIDENTS = timedelta(days=90)  # Y1
MESSAGES = timedelta(days=7)  # of webhooks and channels (V2)
IDEMPOTENCY_KEYS = timedelta(hours=24)
EXPIRING = timedelta(days=1)  # items that expire within this time are listed and announced


def article_expires_at(article: Article, age: timedelta) -> datetime | None:
    """When an article gets older than the age limit; None if it is processed."""
    if article.is_processed:
        return None
    date = article.published_at if article.published_at is not None else article.created_at
    return _later(date + age, article.kept_until)


def post_expires_at(post: Post, age: timedelta) -> datetime | None:
    """When a post in no article gets older than the age limit; None if it is in one."""
    return None if post.is_linked else _later(post.created_at + age, post.kept_until)


def _later(expires_at: datetime, kept_until: datetime | None) -> datetime:
    return expires_at if kept_until is None else max(expires_at, kept_until)
