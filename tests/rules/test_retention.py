"""When posts and articles expire (E5)."""

from datetime import timedelta
from typing import Any

import pytest

from headwater.model import Article
from headwater.rules.retention import article_expires_at, post_expires_at
from tests.factories import NOW, a_post

DAY = timedelta(days=1)
WEEK = 7 * DAY


def an_article(**changes: Any) -> Article:
    """An article made at NOW, published two days before."""
    plain: dict[str, Any] = {
        "id": "a",
        "source_id": "s",
        "title": "t",
        "body": "b",
        "url": "https://example.org/",
        "published_at": NOW - 2 * DAY,
        "author": None,
        "content_hash": "h",
        "created_at": NOW,
    }
    return Article(**plain | changes)


@pytest.mark.parametrize(
    ("changes", "days"),
    [
        ({}, 5),
        ({"published_at": None}, 7),
        ({"is_processed": True}, None),
        ({"kept_until": NOW + DAY}, 5),
        ({"kept_until": NOW + 6 * DAY}, 6),
    ],
)
def test_e5_an_article_expires_by_its_date_or_after_an_undo(changes: Any, days: int | None):
    expected = None if days is None else NOW + days * DAY
    assert article_expires_at(an_article(**changes), WEEK) == expected


@pytest.mark.parametrize(
    ("changes", "days"),
    [
        ({"published_at": NOW - 30 * DAY}, 7),
        ({"is_linked": True}, None),
        ({"kept_until": NOW + 9 * DAY}, 9),
    ],
)
def test_e5_a_post_expires_by_when_it_was_stored(changes: Any, days: int | None):
    expected = None if days is None else NOW + days * DAY
    assert post_expires_at(a_post(**changes), WEEK) == expected
