"""Charts as SVG, made on the server: all text is escaped, and no style stands in an attribute.

Places along the line are percentages, so that a chart fits any width and its text keeps its size.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from headwater.model import OutcomeKind, PollRecord

_FOOT, _HEAD = 22, 12  # room for the words below the line, and beside the highest tick
_BAR = 0.78  # of the room that a bar has
_STEP, _TALL, _LOW = 8, 24, 10  # of marks; low ones brought nothing: colour is not all that tells
_TOPS = (10, 12, 16, 20, 30, 40, 50, 60, 80, 100)
_CHART = Markup(
    '<svg class="bars" width="100%" height="{0}" role="img" aria-labelledby="{1}-title {1}-told">'
    '<title id="{1}-title">{2}</title><desc id="{1}-told">{3}</desc>{4}{5}{6}</svg>'
)
_PART = Markup('<rect class="{0}" x="{1}%" width="{2}%" y="{3}" height="{4}"/>')
_GROUP = Markup("<g>{0}<title>{1}</title></g>")
_MOMENT = Markup('<g>{0}<title data-moments="">{1}</title></g>')
_RULER = Markup(
    '<line class="axis" x1="0" x2="100%" y1="{0}" y2="{0}"/>'
    '<text x="-8" y="{1}" text-anchor="end">{2}</text>'
)
_TICK = Markup('<text class="{0}" x="{1}%" y="{2}" text-anchor="{3}">{4}</text>')
_STRIP = Markup(
    '<svg class="marks" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img"'
    ' aria-label="{2}">{3}</svg>'
)
_MARK = Markup('<rect class="{0}" x="{1}" y="{2}" width="6" height="{3}" rx="1.5"/>')
_GAP = Markup('<rect class="gap" x="{0}" y="10" width="6" height="4"/>')


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: the parts it is stacked from, lowest first, and what it says when pointed at."""

    parts: Sequence[int]
    told: str


def stacked_bars(
    bars: Sequence[Bar],
    names: Sequence[str],
    *,
    id_: str,
    title: str,
    summary: str,
    ticks: Sequence[str],
    height: int = 190,
) -> Markup:
    """Bars over time, their parts in the classes `names`; `ticks` are spread along the line."""
    top = round_top(max((sum(bar.parts) for bar in bars), default=0))
    floor = height - _FOOT
    scale = (floor - _HEAD) / top
    heights = {value: floor - value * scale for value in (0, top // 2, top)}
    rulers = (_RULER.format(f"{y:.2f}", f"{y + 4:.2f}", f"{n:,}") for n, y in heights.items())
    drawn = (_bar(bar, names, n, 100 / len(bars), scale, floor) for n, bar in enumerate(bars))
    marked = (_tick(text, n, len(ticks) - 1, height) for n, text in enumerate(ticks))
    return _CHART.format(
        height, id_, title, summary, _joined(rulers), _joined(drawn), _joined(marked)
    )


def round_top(highest: int) -> int:
    """The even number that a scale up to this value ends with."""
    if highest <= _TOPS[0]:
        return max(highest + highest % 2, 2)
    size = 1
    while highest > _TOPS[-1] * size:
        size *= 10
    return next(top * size for top in _TOPS if top * size >= highest)


def marks(polls: Sequence[PollRecord]) -> Markup:
    """A strip of coloured marks, one per poll, oldest first; `polls` are newest first.

    Each says what came of it when pointed at.
    """
    drawn = (_mark(poll, 1 + n * _STEP) for n, poll in enumerate(reversed(polls)))
    width = max(len(polls), 1) * _STEP
    return _STRIP.format(width, _TALL, _polls_told(polls), _joined(drawn))


def poll_told(poll: PollRecord) -> str:
    """What came of a poll, in one line."""
    said = {
        OutcomeKind.STORED: f"{poll.new_posts} new post{'s' if poll.new_posts != 1 else ''}",
        OutcomeKind.UNCHANGED: "nothing new",
        OutcomeKind.FAILED: f"failed: {poll.error or poll.failure_kind or 'unknown'}",
    }
    at = f"{poll.started_at:%Y-%m-%d %H:%M} UTC"
    return f"{at}: {said[poll.outcome]} ({poll.duration_ms} ms)"


def _bar(
    bar: Bar, names: Sequence[str], place: int, band: float, scale: float, floor: float
) -> Markup:
    x, width, parts, base = band * (place + (1 - _BAR) / 2), band * _BAR, [], floor
    for part, name in zip(bar.parts, names, strict=True):
        base -= part * scale
        if part > 0:
            parts.append(_part(name, x, width, base, part * scale))
    # the whole column answers a pointer, however low its bar is
    parts.append(_part("column", band * place, band, 0, floor))
    return _GROUP.format(_joined(parts), bar.told)


def _part(name: str, *numbers: float) -> Markup:
    return _PART.format(name, *(f"{number:.2f}" for number in numbers))


def _tick(text: str, place: int, last: int, height: int) -> Markup:
    anchor = {0: "start", last: "end"}.get(place, "middle")
    kind = "minor" if place % 2 else "major"  # where it is narrow, there is no room for all
    return _TICK.format(kind, f"{100 * place / max(last, 1):.2f}", height - 5, anchor, text)


def _polls_told(polls: Sequence[PollRecord]) -> str:
    failed = sum(poll.outcome is OutcomeKind.FAILED for poll in polls)
    match len(polls):
        case 0:
            return "no poll yet"
        case 1:
            return "the last poll, which failed" if failed else "the last poll, which did not fail"
    return f"the last {len(polls)} polls, {failed or 'none'} of them failed"


def _mark(poll: PollRecord, x: int) -> Markup:
    tall = _LOW if poll.outcome is OutcomeKind.UNCHANGED else _TALL
    drawn = _MARK.format(poll.outcome.value, x, _TALL - tall, tall)
    if poll.outcome is OutcomeKind.FAILED:
        drawn += _GAP.format(x)
    return _MOMENT.format(drawn, poll_told(poll))


def _joined(pieces: Iterable[Markup]) -> Markup:
    return Markup("").join(pieces)
