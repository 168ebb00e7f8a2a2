"""Draws the demo: every host with its lane, and the last events."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.console import ConsoleDimensions, Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from headwater.cli import humanize, output
from headwater.cli.columns import Column, Styled, number, wide
from headwater.clock import Clock
from headwater.demo.demo_web import DemoHost
from headwater.engine.events import Event, EventKind, Events
from headwater.engine.service import Service
from headwater.model import Health, Outcome, OutcomeKind, Source
from headwater.rules.health import health_of
from headwater.rules.policy import Policy
from headwater.rules.politeness import lane_of, poll_delay
from headwater.rules.schedule import due_at

_MAX_LINES = 200
_OWNER = "default"
_MEDIUM = 76  # columns of the terminal that two totals in a line need
_FRAME_LINES = 2  # between head, hosts and events
_DOTS = {Health.OK: "●", Health.NEW: "○", Health.FAILING: "●", Health.DISABLED: "✗"}
# name, columns of the terminal that it needs, and how it is drawn
_HOST_COLUMNS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("Host", 0, {}),
    ("Lane", 0, {"min_width": 24}),
    ("Queue", _MEDIUM, {"justify": "right"}),
    ("Delay", _MEDIUM, {"justify": "right"}),
    ("Sources", 0, {}),
    ("Posts", 0, {"justify": "right"}),
    ("Last poll", 92, {"overflow": "ellipsis", "ratio": 1}),
    ("What it shows", 132, {"overflow": "ellipsis", "ratio": 2, "style": "dim"}),
)


class DemoEvents:
    """Listens to the service's events; `hosts` has the host name of each source id."""

    def __init__(self, hosts: Mapping[str, str], events: Events, clock: Clock) -> None:
        self.hosts = hosts
        self.started_at = clock.now()
        self.lines: deque[Text] = deque(maxlen=_MAX_LINES)
        self.poll_started: dict[str, datetime] = {}  # by source id, while the poll runs
        self.last_outcome: dict[str, Outcome] = {}  # by source id
        self.polls: Counter[str] = Counter()  # by source id
        self.posts: Counter[str] = Counter()  # by source id
        self.outcomes: Counter[OutcomeKind] = Counter()
        events.listen(self._on_event)

    def _on_event(self, event: Event) -> None:
        source_id, outcome = event.source_id, event.outcome
        if source_id is not None and event.kind is EventKind.POLL_STARTED:
            self.poll_started[source_id] = event.at
        if source_id is None or outcome is None:
            return
        lines = list[tuple[str, str, str]]()  # symbol, text and style
        if event.kind is EventKind.POLL_FINISHED:
            self._count(source_id, outcome)
            lines += _poll_lines(outcome)
        elif event.kind is EventKind.SOURCE_DISABLED:
            lines += [("✗", outcome.source.disabled_reason or "disabled", "bold red")]
        elif event.kind is EventKind.SOURCE_RECOVERED:
            lines += [("✓", "recovered", "bold green")]
        host = self.hosts.get(source_id, "?")
        for symbol, text, style in lines:
            line = Text(f"{event.at:%H:%M:%S} ", "dim", no_wrap=True, overflow="ellipsis")
            line.append(f"{symbol} {host:<14} ", style=style)
            self.lines.append(line.append(text, style=style if style != "green" else "none"))

    def _count(self, source_id: str, outcome: Outcome) -> None:
        self.poll_started.pop(source_id, None)
        self.last_outcome[source_id] = outcome
        self.polls[source_id] += 1
        self.posts[source_id] += len(outcome.posts)
        self.outcomes[outcome.kind] += 1


def _poll_lines(outcome: Outcome) -> Iterator[tuple[str, str, str]]:
    if outcome.failure is not None:
        yield "!", outcome.failure.message, "yellow"
    elif outcome.posts:
        new = humanize.counted(len(outcome.posts), "new post")
        yield "+", f"{new}: {outcome.posts[0].title}", "green"
    else:
        yield "·", f"nothing new ({outcome.status})", "dim"
    if outcome.hold is not None:
        held = (outcome.hold.until - outcome.hold.set_at).total_seconds()
        yield "⏸", f"asks for no requests: on hold for {humanize.span(held)}", "bold yellow"


def show_summary(events: DemoEvents, sources: Sequence[Source]) -> None:
    """Print what the demo did with every source."""
    columns: tuple[Column[Source], ...] = (
        Column("Host", lambda source: events.hosts[source.id]),
        wide("Source", lambda source: source.label or source.title or source.url, optional=2),
        Column("Health", lambda source: humanize.styled_health(health_of(source))),
        number("Polls", lambda source: events.polls[source.id]),
        number("Posts", lambda source: events.posts[source.id]),
        wide(
            "Last error",
            lambda s: s.disabled_reason or s.last_error or "",
            min_width=12,
            optional=1,
        ),
    )
    order = list(events.hosts)
    output.show_table(columns, sorted(sources, key=lambda s: order.index(s.id)), title="Summary")
    kinds = (
        Styled(f", {events.outcomes[kind]:,} {kind}", humanize.OUTCOME_STYLE[kind])
        for kind in OutcomeKind
    )
    polls = humanize.counted(events.polls.total(), "poll")
    posts = humanize.counted(events.posts.total(), "new post")
    output.say(Styled(polls, "bold"), *kinds, Styled(f"; {posts}", "bold"))


@dataclass(frozen=True, slots=True)
class DemoView:
    """Draws frames of the running demo."""

    hosts: Sequence[DemoHost]
    events: DemoEvents
    service: Service
    policy: Policy
    url: str  # of the dashboard

    def frame(
        self, sources: Sequence[Source], now: datetime, size: ConsoleDimensions
    ) -> RenderableType:
        """Return one frame that fits the terminal."""
        head = self._head(sources, now, size.width)
        room = max(size.height - len(self.hosts) - len(head) - _FRAME_LINES, 1)
        return Group(
            *head,
            self._host_table(sources, now, size.width),
            Rule(Text("last events", style="dim"), style="dim", align="left"),
            *list(self.events.lines)[-room:],
        )

    def _head(self, sources: Sequence[Source], now: datetime, width: int) -> list[RenderableType]:
        title = Text(" Headwater ", style="bold white on blue").append(" demo ", style="bold")
        running = (now - self.events.started_at).total_seconds()
        title.append(humanize.span(running), style="cyan")
        lanes = self.service.lanes
        title.append(f"  {len(lanes.in_flight())} polling, {lanes.waiting()} waiting", style="none")
        healths = Text(" ")
        for health in Health:
            count = sum(health_of(source) is health for source in sources)
            style = humanize.HEALTH_STYLE[health]
            healths.append(f"{_DOTS[health]} {count} {health}   ", style=style)
        polls = humanize.counted(self.events.polls.total(), "poll")
        posts = humanize.counted(self.events.posts.total(), "new post")
        totals = Text(f"{polls}, {posts} ", style="bold")
        top = _line(title, Text("Ctrl-C ends ", style="dim"))
        dashboard = Text(f" dashboard: {self.url}", style="dim")
        if width < _MEDIUM:
            return [top, _line(healths), _line(Text(" ").append(totals)), dashboard]
        return [top, _line(healths, totals), dashboard]

    def _host_table(self, sources: Sequence[Source], now: datetime, width: int) -> Table:
        table = Table(box=None, expand=True, pad_edge=True, header_style="bold underline")
        shown = [column for column in _HOST_COLUMNS if width >= column[1]]
        for name, _, options in shown:
            table.add_column(name, no_wrap=True, **options)
        for host in self.hosts:
            own = [s for s in sources if self.events.hosts.get(s.id) == host.name]
            if own:
                cells = self._host_cells(host, own, now)
                table.add_row(*(cells[name] for name, *_ in shown))
        return table

    def _host_cells(
        self, host: DemoHost, own: Sequence[Source], now: datetime
    ) -> dict[str, Text | str]:
        lanes = self.service.lanes
        lane = lane_of(own[0], _OWNER) or ""
        queue = lanes.length(lane) - len(lanes.in_flight().get(lane, ()))
        delay = max(poll_delay(source, self.policy).total_seconds() for source in own)
        dots = Text()
        for source in own:
            health = health_of(source)
            dots.append(_DOTS[health], style=humanize.HEALTH_STYLE[health])
        return {
            "Host": Text(host.name, style="bold"),
            "Lane": self._lane(lane, own, now),
            "Queue": str(queue) if queue else Text("–", style="dim"),
            "Delay": f"{delay:g} s" if delay else Text("–", style="dim"),
            "Sources": dots,
            "Posts": f"{sum(self.events.posts[source.id] for source in own):,}",
            "Last poll": self._last_poll(own),
            "What it shows": Text(host.about),
        }

    def _lane(self, lane: str, own: Sequence[Source], now: datetime) -> Text:
        """Return what the lane does now, or what it waits for."""
        service = self.service
        polled = service.lanes.running_since().keys() & {source.id for source in own}
        wait = service.gates.seconds_until_open(lane)
        if polled:
            started = [self.events.poll_started.get(source_id, now) for source_id in polled]
            seconds = (now - min(started)).total_seconds()
            return Text(f"▶ polling {max(seconds, 0):.0f} s", style="bold cyan")
        if service.gates.hold_of(lane) is not None:
            return Text(f"⏸ on hold, {humanize.span(wait)}", style="bold yellow")
        if wait > 0 and service.lanes.length(lane):
            return Text(f"… delay, {wait:.1f} s", style="magenta")
        moments = [(due_at(source, self.policy), source) for source in own if source.enabled]
        known = [(moment, source) for moment, source in moments if moment is not None]
        if not known:
            return Text("✗ disabled", style="red")
        moment, source = min(known, key=lambda pair: pair[0])
        text = humanize.coming(moment, now)
        if source.consecutive_failures > 0:
            return Text(f"↻ backoff, {text}", style="yellow")
        return Text(f"  {text}", style="dim")

    def _last_poll(self, own: Sequence[Source]) -> Text:
        last = self.events.last_outcome
        outcomes = [last[source.id] for source in own if source.id in last]
        if not outcomes:
            return Text("")
        outcome = max(outcomes, key=lambda one: one.started_at)
        new = len(outcome.posts)
        text = humanize.counted(new, "new post") if new else f"nothing new ({outcome.status})"
        if outcome.failure is not None:
            text = outcome.failure.message
        return Text(text, style=humanize.OUTCOME_STYLE[outcome.kind])


def _line(left: Text, right: Text | None = None) -> Table:
    grid = Table.grid(expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_column(no_wrap=True, justify="right")
    grid.add_row(left, right)
    return grid
