"""The network half of a poll; `read_feed` and `read_page` are pure and open to everyone."""

from headwater.fetch.feed.feed_document import read_feed
from headwater.fetch.page.page_document import read_page

__all__ = ["read_feed", "read_page"]
