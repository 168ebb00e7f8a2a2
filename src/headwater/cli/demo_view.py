"""The picture that the demo draws: every host with its lane, and what happened last."""

from collections.abc import Sequence
from datetime import datetime

from rich.console import ConsoleDimensions, Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from headwater.cli import output, words
from headwater.cli.demo_story import Story
from headwater.demo import DemoHost
from headwater.engine.service import Service
from headwater.model import Health, Source
from headwater.rules.health import health_of
from headwater.rules.policy import Policy
from headwater.rules.politeness import lane_of, poll_delay
from headwater.rules.schedule import due_at

_OWNER = "default"
_WIDE = 132  # columns from which there is room to say what each host is
_ROOMY = 92  # columns from which there is room for the last poll
_MEDIUM = 76  # columns from which there is room for queues, delays and two totals in a line
_FRAME_LINES = 2  # of the picture, between head, hosts and events
_DOTS = {Health.OK: "●", Health.NEW: "○", Health.FAILING: "●", Health.DISABLED: "✗"}


def picture(
    story: Story,
    service: Service,
    sources: Sequence[Source],
    now: datetime,
    policy: Policy,
    size: ConsoleDimensions,
    *,
    url: str,
) -> RenderableType:
    """One frame, made to fit the terminal."""
    hosts = story.stage.web.hosts
    head = [*_head(story, service, sources, now, width=size.width), _dashboard(url)]
    room = max(size.height - len(hosts) - len(head) - _FRAME_LINES, 1)
    lines = [line.copy() for line in list(story.lines)[-room:]]
    for line in lines:
        line.truncate(size.width, overflow="ellipsis")
    return Group(
        *head,
        _hosts(story, service, list(sources), now, policy, width=size.width),
        Rule(Text("what happened last", style="dim"), style="dim", align="left"),
        *lines,
    )


def _dashboard(url: str) -> Text:
    return Text(f" dashboard: {url}", style="dim")


def summary(
    story: Story, sources: Sequence[Source]
) -> tuple[tuple[output.Column, ...], list[list[output.Cell]]]:
    """What became of every source, as a table."""
    columns = (
        output.Column("Host"),
        output.spare(output.wide("Source"), 2),
        output.Column("Health"),
        output.number("Polls"),
        output.number("Posts"),
        output.spare(output.wide("Last error", least=12)),
    )
    rows: list[list[output.Cell]] = [
        [
            story.stage.host(source.id),
            source.label or source.url,
            Text(health_of(source).value, style=words.HEALTH_STYLE[health_of(source)]),
            str(story.polls[source.id]),
            str(story.posts[source.id]),
            source.disabled_reason or source.last_error or "",
        ]
        for source in sorted(sources, key=lambda s: list(story.stage.homes).index(s.id))
    ]
    return columns, rows


def _head(
    story: Story, service: Service, sources: Sequence[Source], now: datetime, *, width: int
) -> list[RenderableType]:
    title = Text(" Headwater ", style="bold white on blue").append(" demo ", style="bold")
    title.append(words.span((now - story.started_at).total_seconds()), style="cyan")
    flying, waiting = len(service.lanes.in_flight()), service.lanes.waiting()
    title.append(f"  {flying} polling, {waiting} waiting", style="none")
    top = _line(title, Text("Ctrl-C ends ", style="dim"))
    healths = Text(" ")
    for health in Health:
        count = sum(health_of(source) is health for source in sources)
        mark, style = _DOTS[health], words.HEALTH_STYLE[health]
        healths.append(f"{mark} {count} {health}   ", style=style)
    polls = words.counted(story.polls.total(), "poll")
    posts = words.counted(story.posts.total(), "new post")
    totals = Text(f"{polls}, {posts} ", style="bold")
    if width < _MEDIUM:
        return [top, _line(healths, Text()), _line(Text(" ").append(totals), Text())]
    return [top, _line(healths, totals)]


def _line(left: Text, right: Text) -> Table:
    grid = Table.grid(expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_column(no_wrap=True, justify="right")
    grid.add_row(left, right)
    return grid


def _hosts(
    story: Story,
    service: Service,
    sources: list[Source],
    now: datetime,
    policy: Policy,
    *,
    width: int,
) -> Table:
    table = Table(box=None, expand=True, pad_edge=True, header_style="bold underline")
    table.add_column("Host", no_wrap=True)
    table.add_column("Lane", no_wrap=True, min_width=24)
    if width >= _MEDIUM:
        table.add_column("Queue", justify="right", no_wrap=True)
        table.add_column("Delay", justify="right", no_wrap=True)
    table.add_column("Sources", no_wrap=True)
    table.add_column("Posts", justify="right", no_wrap=True)
    if width >= _ROOMY:
        table.add_column("Last poll", no_wrap=True, overflow="ellipsis", ratio=1)
    if width >= _WIDE:
        table.add_column("What it shows", no_wrap=True, overflow="ellipsis", ratio=2, style="dim")
    for host in story.stage.web.hosts:
        mine = story.stage.sources_of(host, sources)
        if mine:
            cells = _row(host, mine, story, service, now, policy)
            cells = [*cells, Text(host.about)]
            if width < _MEDIUM:
                del cells[2:4]
            table.add_row(*cells[: len(table.columns)])
    return table


def _row(
    host: DemoHost,
    mine: list[Source],
    story: Story,
    service: Service,
    now: datetime,
    policy: Policy,
) -> list[output.Cell]:
    lane = lane_of(mine[0], _OWNER) or ""
    queue = service.lanes.length(lane) - (lane in service.lanes.in_flight())
    delay = max(poll_delay(source, policy).total_seconds() for source in mine)
    return [
        Text(host.name, style="bold"),
        _lane(lane, mine, story, service, now, policy),
        str(queue) if queue else Text("–", style="dim"),
        f"{delay:g} s" if delay else Text("–", style="dim"),
        _dots(mine),
        f"{sum(story.posts[source.id] for source in mine):,}",
        _last(mine, story),
    ]


def _lane(
    lane: str,
    mine: list[Source],
    story: Story,
    service: Service,
    now: datetime,
    policy: Policy,
) -> Text:
    """What the lane does now, or what it waits for."""
    flying = service.lanes.in_flight().get(lane)
    hold = service.gates.hold_of(lane)
    wait = service.gates.seconds_until_open(lane)
    if flying is not None:
        seconds = (now - story.under_way.get(flying, now)).total_seconds()
        return Text(f"▶ polling {max(seconds, 0):.0f} s", style="bold cyan")
    if hold is not None:
        return Text(f"⏸ on hold, {words.span(wait)}", style="bold yellow")
    if wait > 0 and service.lanes.length(lane):
        return Text(f"… delay, {wait:.1f} s", style="magenta")
    return _rest(mine, now, policy)


def _rest(mine: list[Source], now: datetime, policy: Policy) -> Text:
    moments = [(due_at(s, policy), s) for s in mine if s.enabled]
    known = [(moment, source) for moment, source in moments if moment is not None]
    if not known:
        return Text("✗ disabled", style="red")
    moment, source = min(known, key=lambda pair: pair[0])
    told = words.coming(moment, now)
    if source.consecutive_failures > 0:
        return Text(f"↻ backoff, {told}", style="yellow")
    return Text(f"  {told}", style="dim")


def _dots(mine: list[Source]) -> Text:
    text = Text()
    for source in mine:
        health = health_of(source)
        text.append(_DOTS[health], style=words.HEALTH_STYLE[health])
    return text


def _last(mine: list[Source], story: Story) -> Text:
    outcomes = [story.last[source.id] for source in mine if source.id in story.last]
    if not outcomes:
        return Text("")
    outcome = max(outcomes, key=lambda one: one.started_at)
    style = words.OUTCOME_STYLE[outcome.kind]
    if outcome.failure is not None:
        return Text(outcome.failure.message, style=style)
    new = len(outcome.posts)
    return Text(words.counted(new, "new post") if new else f"nothing new ({outcome.status})", style)
