"""How posts become articles: one by one, as digests or as threads (A1, A2, E3)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

from headwater.model import Article, Post, Source, SourceType
from headwater.rules.admission import content_hash, id_with_seq, timed_id
from headwater.rules.markdown_text import escaped, markdown_link, markdown_of_text
from headwater.rules.policy import Policy
from headwater.rules.politeness import host_of
from headwater.rules.threads import (
    NO_CONTEXT,
    Thread,
    ThreadArticle,
    ThreadContext,
    is_threaded,
    post_time,
    threads_of,
    with_x_links,
    x_url,
)

# Limits of one digest or thread; further posts go into the next one.
MAX_POSTS = 1_000
MAX_CHARACTERS = 2_000_000
_SEPARATOR = "\n\n---\n\n"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def is_aggregating(source: Source, policy: Policy) -> bool:
    """Whether a source's posts are combined into digests (A1)."""
    if source.aggregate is not None:
        return source.aggregate
    if source.type is SourceType.TWITTER:
        return True
    host = host_of(source)
    return host is not None and any(
        host == name or host.endswith(f".{name}") for name in policy.aggregate_hosts
    )


def articles_from(
    source: Source,
    posts: Sequence[Post],
    now: datetime,
    policy: Policy,
    context: ThreadContext = NO_CONTEXT,
) -> list[Article]:
    """One digest of an aggregating source's posts, or one article per thread or post (A2, E3).

    Posts over the limits of one digest make several, oldest first. `context` is for threads.
    """
    posts = [_with_full_text(source, post) for post in posts]
    in_order = sorted(posts, key=lambda post: (post_time(post), post.id))
    if is_threaded(source):
        threads = threads_of(source, in_order, context)
        return [_article_of_thread(source, thread, context, now) for thread in threads]
    if not is_aggregating(source, policy):
        return [_single(post, now) for post in in_order]
    posts_left = iter(in_order)
    sizes = digest_sizes(len(post.body) for post in in_order)
    groups = [list(islice(posts_left, size)) for size in sizes]
    return [
        _digest(source, group, now) if len(group) >= 2 else _single(group[0], now)
        for group in groups
    ]


def digest_sizes(lengths: Iterable[int]) -> Iterator[int]:
    """The number of posts in each digest, from the lengths of their bodies."""
    count = total = 0
    for length in lengths:
        if count == MAX_POSTS or (count and total + length > MAX_CHARACTERS):
            yield count
            count = total = 0
        count += 1
        total += length
    if count:
        yield count


def _with_full_text(source: Source, post: Post) -> Post:
    """The post with the text of its page as body, if that was used (T4)."""
    if post.page_text is None or source.type is SourceType.WEBSITE:
        return post
    return replace(post, body=post.page_text)


def _digest(source: Source, posts: Sequence[Post], now: datetime) -> Article:
    oldest, newest = posts[0], posts[-1]
    author = oldest.author or source.label or source.title or host_of(source) or source.url
    day = post_time(newest).astimezone(UTC)
    title = f"Posts from {author} — {_MONTHS[day.month - 1]} {day.day}, {day.year}"
    body = _SEPARATOR.join(_with_date(post) for post in posts)
    markdown = "\n\n".join(_with_heading(post) for post in posts)
    return replace(_combined(posts, body, markdown, now), title=title, url=source.url)


def _article_of_thread(
    source: Source, thread: Thread, context: ThreadContext, now: datetime
) -> Article:
    """A new article, or the last one of the thread with these posts if it may be extended (E3)."""
    known = context.articles_of(thread.id)
    last = known[-1] if known else None
    posts = _extended(source, last, thread.posts) if last else None
    article = _thread(source, posts or thread.posts, now)
    if last and posts:
        kept_until = max(filter(None, (last.kept_until, article.kept_until)), default=None)
        article = replace(article, id=last.id, seq=last.seq, kept_until=kept_until)
    first_at = post_time((posts or thread.posts)[0])
    before = [one.id for one in known if one.id != article.id and one.newest_at <= first_at]
    return replace(article, thread_id=thread.id, follow_up_of=before[-1] if before else None)


def _extended(source: Source, article: ThreadArticle, new: Sequence[Post]) -> Sequence[Post] | None:
    """The posts of an article with new ones; None: they make another article."""
    posts = [*(_with_full_text(source, post) for post in article.posts), *new]
    fits = next(digest_sizes(len(post.body) for post in posts)) == len(posts)
    if not article.posts or not fits:
        return None
    return sorted(posts, key=lambda post: (post_time(post), post.id))


def _thread(source: Source, posts: Sequence[Post], now: datetime) -> Article:
    """The posts as one text, with the title and the link of the first."""
    article = _single(posts[0], now)
    if len(posts) > 1:
        body = "\n\n".join(post.body for post in posts)
        article = _combined(posts, body, "\n\n".join(map(_markdown, posts)), now)
    markdown = article.markdown and with_x_links(source, article.markdown)
    return replace(article, url=x_url(source, article.url), markdown=markdown)


def _combined(posts: Sequence[Post], body: str, markdown: str, now: datetime) -> Article:
    """An article of several posts with the title and link of the oldest, dated by the newest."""
    oldest, newest = posts[0], posts[-1]
    digest = content_hash(body)
    return Article(
        id=_article_id(newest, digest),
        source_id=oldest.source_id,
        title=oldest.title,
        body=body,
        url=oldest.url,
        published_at=post_time(newest),
        author=oldest.author,
        content_hash=digest,
        created_at=now,
        markdown=markdown,
        kept_until=max((p.kept_until for p in posts if p.kept_until is not None), default=None),
        post_ids=tuple(post.id for post in posts),
    )


def _single(post: Post, now: datetime) -> Article:
    return Article(
        id=_article_id(post, post.content_hash),
        source_id=post.source_id,
        title=post.title,
        body=post.body,
        url=post.url,
        published_at=post.published_at,
        author=post.author,
        content_hash=post.content_hash,
        created_at=now,
        markdown=post.markdown,
        kept_until=post.kept_until,
        post_ids=(post.id,),
    )


def _article_id(newest: Post, digest: str) -> str:
    """An id that sorts by the time and the number of its newest post (R9)."""
    id_ = timed_id(post_time(newest), "article", newest.source_id, digest)
    return id_ if newest.seq is None else id_with_seq(id_, newest.seq)


def _with_heading(post: Post) -> str:
    """The Markdown of a post below a heading with its title and link (T1)."""
    heading = f"## {markdown_link(escaped(post.title), post.url)}"
    date = "" if post.published_at is None else f"{timestamp_seconds(post.published_at)}\n\n"
    return f"{heading}\n\n{date}{_markdown(post)}"


def _markdown(post: Post) -> str:
    return post.markdown if post.markdown is not None else markdown_of_text(post.body)


def _with_date(post: Post) -> str:
    if post.published_at is None:
        return post.body
    return f"{timestamp_seconds(post.published_at)}\n{post.body}"


def timestamp_seconds(moment: datetime) -> str:
    """A time in UTC, to the second."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
