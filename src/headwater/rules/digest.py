"""How posts become articles (A1, A2)."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from headwater.model import Article, Post, Source, SourceType
from headwater.rules.admission import content_hash, timed_id
from headwater.rules.policy import Policy
from headwater.rules.politeness import host_of

# What one digest holds at most; where more waits, the next digest goes on.
MOST_POSTS = 1_000
MOST_CHARACTERS = 2_000_000
_SEPARATOR = "\n\n---\n\n"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def is_aggregating(source: Source, policy: Policy) -> bool:
    """Whether a source's posts are gathered into digests (A1)."""
    if source.aggregate is not None:
        return source.aggregate
    if source.type is SourceType.TWITTER:
        return True
    host = host_of(source)
    return host is not None and any(
        host == name or host.endswith(f".{name}") for name in policy.aggregate_hosts
    )


def articles_from(
    source: Source, posts: Sequence[Post], now: datetime, policy: Policy
) -> list[Article]:
    """One digest of an aggregating source's posts, else one article per post (A2).

    Posts that are too much for one digest make several, the oldest ones the first.
    """
    in_order = sorted(posts, key=_age_order)
    if not is_aggregating(source, policy):
        return [_single(post, now) for post in in_order]
    return [
        _digest(source, some, now) if len(some) >= 2 else _single(some[0], now)
        for some in _portions(in_order)
    ]


def portion_sizes(lengths: Iterable[int]) -> Iterator[int]:
    """How many posts at a time, by the lengths of their bodies, fit into a digest."""
    count = total = 0
    for length in lengths:
        if count == MOST_POSTS or (count and total + length > MOST_CHARACTERS):
            yield count
            count = total = 0
        count += 1
        total += length
    if count:
        yield count


def _portions(posts: Sequence[Post]) -> Iterator[Sequence[Post]]:
    first = 0
    for size in portion_sizes(len(post.body) for post in posts):
        yield posts[first : first + size]
        first += size


def _digest(source: Source, posts: Sequence[Post], now: datetime) -> Article:
    oldest, newest = posts[0], posts[-1]
    body = _SEPARATOR.join(_headed(post) for post in posts)
    digest = content_hash(body)
    author = oldest.author or host_of(source) or source.url
    return Article(
        id=timed_id(_moment(newest), "article", source.id, digest),
        source_id=source.id,
        title=f"Posts from {author} — {_day(_moment(newest))}",
        body=body,
        url=source.url,
        published_at=_moment(newest),
        author=oldest.author,
        content_hash=digest,
        created_at=now,
        post_ids=_ids(posts),
    )


def _single(post: Post, now: datetime) -> Article:
    return Article(
        id=timed_id(_moment(post), "article", post.source_id, post.content_hash),
        source_id=post.source_id,
        title=post.title,
        body=post.body,
        url=post.url,
        published_at=post.published_at,
        author=post.author,
        content_hash=post.content_hash,
        created_at=now,
        post_ids=(post.id,),
    )


def _ids(posts: Iterable[Post]) -> tuple[str, ...]:
    return tuple(post.id for post in posts)


def _headed(post: Post) -> str:
    if post.published_at is None:
        return post.body
    return f"{post.published_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}\n{post.body}"


def _moment(post: Post) -> datetime:
    return post.published_at if post.published_at is not None else post.created_at


def _age_order(post: Post) -> tuple[datetime, str]:
    return _moment(post), post.id


def _day(moment: datetime) -> str:
    utc = moment.astimezone(UTC)
    return f"{_MONTHS[utc.month - 1]} {utc.day}, {utc.year}"
