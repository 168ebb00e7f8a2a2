"""The charts of the overview: polls by outcome and new posts, over the last hour or day."""

from collections.abc import Sequence

from markupsafe import Markup

from headwater.engine.timeline import Bucket, Span, totals
from headwater.model import OutcomeKind
from headwater.rules.explanation import span as in_words
from headwater.web.charts import Bar, stacked_bars

# ago, not by the clock: that is true in every zone
_TICKS = {
    Span.HOUR: ("1 h ago", "45 min", "30 min", "15 min", "now"),
    Span.DAY: ("1 d ago", "18 h", "12 h", "6 h", "now"),
}
_STEPS = {Span.HOUR: "a minute", Span.DAY: "15 minutes"}
_SECONDS = {Span.HOUR: 60, Span.DAY: 15 * 60}
# lowest first: what is nearly always there keeps the line still
_PARTS = (OutcomeKind.UNCHANGED, OutcomeKind.STORED, OutcomeKind.FAILED)


def polls_chart(buckets: Sequence[Bucket], span: Span) -> Markup:
    """Polls by outcome over time."""
    sums = totals(buckets)
    most = max((b.stored + b.unchanged + b.failed for b in buckets), default=0)
    return stacked_bars(
        [_polls_bar(bucket, _ago(place, buckets, span)) for place, bucket in enumerate(buckets)],
        _PARTS,
        id_="polls",
        title=f"Polls over the last {span}",
        summary=f"{_polls(*(sums[kind] for kind in _PARTS))}. At most {most:,} in {_STEPS[span]}.",
        ticks=_TICKS[span],
    )


def posts_chart(buckets: Sequence[Bucket], span: Span) -> Markup:
    """New posts over time."""
    most = max((bucket.new_posts for bucket in buckets), default=0)
    bars = [
        Bar((bucket.new_posts,), f"{_ago(place, buckets, span)}: {_posts(bucket.new_posts)}")
        for place, bucket in enumerate(buckets)
    ]
    told = _posts(sum(bucket.new_posts for bucket in buckets))
    return stacked_bars(
        bars,
        ("stored",),
        id_="posts",
        title=f"New posts over the last {span}",
        summary=f"{told}. At most {most:,} in {_STEPS[span]}.",
        ticks=_TICKS[span],
        height=130,
    )


def _polls_bar(bucket: Bucket, when: str) -> Bar:
    parts = bucket.unchanged, bucket.stored, bucket.failed
    return Bar(parts, f"{when}: {_polls(*parts)}")


def _polls(unchanged: int, stored: int, failed: int) -> str:
    all_ = unchanged + stored + failed
    if not all_:
        return "no polls"
    told = "1 poll" if all_ == 1 else f"{all_:,} polls"
    return f"{told}: {stored:,} with new posts, {unchanged:,} without, {failed:,} failed"


def _posts(number: int) -> str:
    return "1 new post" if number == 1 else f"{number:,} new posts"


def _ago(place: int, buckets: Sequence[Bucket], span: Span) -> str:
    back = len(buckets) - 1 - place
    return f"{in_words(back * _SECONDS[span])} ago" if back else "Now"
