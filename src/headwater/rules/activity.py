"""How often a source publishes, and since when it is silent (Y1)."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from headwater.model import EPOCH, Post

Minutes = Sequence[int]  # publication times since 1970, each once, oldest first
_LEAST_POSTS = 10  # with different publication times
_MOST_POSTS = 50  # what is usual follows from the newest ones
_LEAST_SILENCE = timedelta(days=7)
_LEAST_TIME = timedelta(days=2)  # between the posts from which the usual pace follows
_TIMES_USUAL = 3
_MINUTE = timedelta(minutes=1)
_PER_WEEK = ((7.0, "{:.0f} a day", 7), (0.75, "{:.0f} a week", 1), (0.0, "{:.0f} a month", 7 / 30))


def published_times(known: Minutes, posts: Iterable[Post], now: datetime) -> list[int]:
    """The newest publication times of a source, with those of its new posts.

    Posts without a date do not count, nor do dates in the future.
    """
    new = {
        (post.published_at - EPOCH) // _MINUTE
        for post in posts
        if post.published_at is not None and post.published_at <= now
    }
    return sorted(new.union(known))[-_MOST_POSTS:]


def silent_after(times: Minutes) -> datetime | None:
    """When a source that publishes nothing more is silent; None: too few posts are known.

    A week after its newest post, or three times its longest gap if that is longer.
    """
    if len(times) < _LEAST_POSTS:
        return None
    longest = max(after - before for before, after in pairwise(times)) * _MINUTE
    return newest_at(times) + max(_LEAST_SILENCE, _TIMES_USUAL * longest)


def pace_text(times: Minutes, now: datetime) -> str:
    """What is usual, and what is new: `usually 5 a week, nothing for 12 days`."""
    days = max((now - newest_at(times)).days, 0)
    newest = "something today" if days == 0 else f"nothing for {days} day{'' if days == 1 else 's'}"
    pace = usual_pace(times)
    usual = f"{len(times)} posts so far" if pace is None else f"usually {pace}"
    return f"{usual}, {newest}"


def posts_by_day(times: Minutes, now: datetime, days: int) -> list[int]:
    """The number of posts of each of the last days, the oldest first."""
    counts = [0] * days
    today = (now - EPOCH).days
    for minutes in times:
        ago = today - minutes // (24 * 60)
        if 0 <= ago < days:
            counts[days - 1 - ago] += 1
    return counts


def newest_at(times: Minutes) -> datetime:
    """The newest of these times."""
    return EPOCH + times[-1] * _MINUTE


def usual_pace(times: Minutes) -> str | None:
    """How many posts a source usually publishes: `5 a week`; None: too few posts are known.

    Many posts of less than two days do not show what is usual, unless older ones are not kept.
    """
    if len(times) < _LEAST_POSTS:
        return None
    length = (times[-1] - times[0]) * _MINUTE
    if length < _LEAST_TIME and len(times) < _MOST_POSTS:
        return None
    if length < timedelta(days=1):
        return f"{_MOST_POSTS} a day or more"
    weeks = length / timedelta(weeks=1)
    per_week = (len(times) - 1) / weeks
    text, divisor = next(row[1:] for row in _PER_WEEK if per_week >= row[0])
    return text.format(max(per_week / divisor, 1.0))
