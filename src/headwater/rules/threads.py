"""Threads: which posts of a source belong together, and which article they continue (E3)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.model import Post, Source, SourceType, light
from headwater.source_settings import AggregateBy

LONGEST_PAUSE = timedelta(hours=1)  # between two posts of a thread on Nitter
# What Nitter puts before the text in the title of a reply, and of a repost.
_REPLY = re.compile(r"R to @(\w{1,30}):")
_REPOST = "RT by @"
MARKER_LENGTH = 40  # characters of a title that may be the marker
_NITTER_FEED = re.compile(r"https?://(?:[^/?#@]*@)?([^/?#@]+)/(?:[^?#]*/)?rss/?(?:[?#].*)?", re.I)
_POST_LINK = re.compile(r"https?://([^/?#]+)/(\w{1,30}/status/[0-9]{1,19})(?:[?#].*)?", re.I)
_MARKDOWN_LINK = r"\]\(https?://{host}/(\w{{1,30}}(?:/status/[0-9]{{1,19}})?)(?:#m)?\)"


@light
class ThreadPost:
    """What identifies the thread of a post on Nitter."""

    id: str
    title: str  # at least the first characters
    author: str | None
    at: datetime
    thread_id: str | None = None  # of its article
    is_pending: bool = False  # its page is still to be read (T4)


@dataclass(frozen=True, slots=True)
class ThreadArticle:
    """An article of a thread that is stored already."""

    id: str
    thread_id: str
    seq: int
    newest_at: datetime
    kept_until: datetime | None = None  # E1
    posts: tuple[Post, ...] = ()  # if it may still be extended


@dataclass(frozen=True, slots=True)
class ThreadContext:
    """What is stored around the posts of a source that are to be aggregated."""

    nearby: tuple[ThreadPost, ...] = ()  # other posts within the longest pause
    articles: tuple[ThreadArticle, ...] = ()

    def articles_of(self, thread_id: str | None) -> list[ThreadArticle]:
        """The articles of a thread, in order."""
        found = (one for one in self.articles if one.thread_id == thread_id)
        return sorted(found, key=lambda one: (one.newest_at, one.seq))


NO_CONTEXT = ThreadContext()


@dataclass(frozen=True, slots=True)
class Thread:
    """Posts that become one article, oldest first."""

    id: str | None  # None: a post that stands alone
    posts: tuple[Post, ...]


def is_threaded(source: Source) -> bool:
    """Whether an article is made of each thread of a source (E3)."""
    return source.aggregate_by is AggregateBy.THREAD and source.aggregate is not False


def post_time(post: Post) -> datetime:
    """The time by which a post is ordered: published, else stored."""
    return post.published_at if post.published_at is not None else post.created_at


def threads_of(source: Source, posts: Sequence[Post], context: ThreadContext) -> list[Thread]:
    """The threads of posts, which are in order; those that wait for a page are left out (T4)."""
    ids: dict[str, str | None] = {post.id: post.conversation_id for post in posts}
    pending: set[str | None] = set()
    if source.type is SourceType.RSS:
        own = [ThreadPost(p.id, p.title, p.author, post_time(p)) for p in posts]
        all_ = sorted((*own, *context.nearby), key=lambda one: (one.at, one.id))
        ids = dict(_threads_by_marker(all_))
        pending = {ids[one.id] for one in context.nearby if one.is_pending} - {None}
    threads: dict[str, list[Post]] = {}
    for post in posts:
        if ids[post.id] not in pending:
            threads.setdefault(ids[post.id] or post.id, []).append(post)
    return [Thread(ids[each[0].id], tuple(each)) for each in threads.values()]


def _threads_by_marker(posts: Sequence[ThreadPost]) -> Iterator[tuple[str, str | None]]:
    """The thread of each post: a reply to oneself continues one's previous post on Nitter."""
    previous: dict[str, tuple[datetime, str]] = {}  # time and thread by author
    for post in posts:
        author = (post.author or "").removeprefix("@").casefold()
        reply = _REPLY.match(post.title)
        if post.title.startswith(_REPOST) or (reply and reply[1].casefold() != author):
            yield post.id, None
            continue
        thread_id = post.thread_id or post.id
        if reply and author in previous and post.at - previous[author][0] <= LONGEST_PAUSE:
            thread_id = previous[author][1]
        previous[author] = post.at, thread_id
        yield post.id, thread_id


def x_url(source: Source, url: str) -> str:
    """The link of a post on Nitter as a link to X; any other link as it is."""
    found, host = _POST_LINK.fullmatch(url), _nitter_host(source)
    if not found or found[1].casefold() != host:
        return url
    return f"https://x.com/{found[2]}"


def with_x_links(source: Source, markdown: str) -> str:
    """Markdown with its links to users and posts on Nitter replaced by links to X."""
    host = _nitter_host(source)
    if host is None:
        return markdown
    pattern = _MARKDOWN_LINK.format(host=re.escape(host))
    return re.sub(pattern, r"](https://x.com/\1)", markdown, flags=re.IGNORECASE)


def _nitter_host(source: Source) -> str | None:
    """The host of a feed that may be Nitter's: instances have any host, but feeds end in /rss."""
    found = _NITTER_FEED.fullmatch(source.url) if source.type is SourceType.RSS else None
    return found[1].casefold() if found else None
