"""A typed Python client of the Headwater API: `Headwater`, and `AsyncHeadwater` for asyncio.

It needs nothing of the service and imports none of its modules.
"""

from headwater.client.clients import AsyncHeadwater, Headwater
from headwater.client.errors import (
    HeadwaterClientError,
    HeadwaterProblem,
    HeadwaterTimeout,
    HeadwaterUnreachable,
)
from headwater.client.operation import Page
from headwater.client.results.content import Article, Post
from headwater.client.results.events import Event
from headwater.client.results.sources import Podcast, Source

__all__ = [
    "Article",
    "AsyncHeadwater",
    "Event",
    "Headwater",
    "HeadwaterClientError",
    "HeadwaterProblem",
    "HeadwaterTimeout",
    "HeadwaterUnreachable",
    "Page",
    "Podcast",
    "Post",
    "Source",
]
