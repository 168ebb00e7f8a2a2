"""What has happened in the demo so far, in words."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from rich.text import Text

from headwater.cli import words
from headwater.clock import Clock
from headwater.demo import DemoHost, DemoWeb
from headwater.engine.events import Event, EventKind, Events
from headwater.model import Outcome, OutcomeKind, Source

_REMEMBERED = 200


@dataclass(frozen=True)
class Stage:
    """The simulated web, and which source lives on which of its hosts."""

    web: DemoWeb
    homes: Mapping[str, str]  # id of a source to the name of its host

    def host(self, source_id: str) -> str:
        """The name of a source's host."""
        return self.homes.get(source_id, "?")

    def sources_of(self, host: DemoHost, sources: list[Source]) -> list[Source]:
        """The sources of one host."""
        return [source for source in sources if self.homes.get(source.id) == host.name]


class Story:
    """Listens to what happens and remembers what is worth telling."""

    def __init__(self, stage: Stage, events: Events, clock: Clock) -> None:
        self.stage = stage
        self.started_at = clock.now()
        self.lines: deque[Text] = deque(maxlen=_REMEMBERED)
        self.under_way: dict[str, datetime] = {}
        self.last: dict[str, Outcome] = {}
        self.polls: Counter[str] = Counter()
        self.posts: Counter[str] = Counter()
        self.outcomes: Counter[OutcomeKind] = Counter()
        events.listen(self._hear)

    def totals(self) -> Text:
        """Everything in one line."""
        text = Text(words.counted(self.polls.total(), "poll"), style="bold")
        for kind in OutcomeKind:
            text.append(f", {self.outcomes[kind]:,} {kind}", style=words.OUTCOME_STYLE[kind])
        return text.append(f"; {words.counted(self.posts.total(), 'new post')}", style="bold")

    def _hear(self, event: Event) -> None:
        if event.source_id is None:
            return
        if event.kind is EventKind.POLL_STARTED:
            self.under_way[event.source_id] = event.at
        elif event.outcome is None:
            return
        elif event.kind is EventKind.POLL_FINISHED:
            self._finished(event.at, event.outcome)
        elif event.kind is EventKind.SOURCE_DISABLED:
            reason = event.outcome.source.disabled_reason or "disabled"
            self._tell(event.at, event.outcome, "✗", reason, "bold red")
        elif event.kind is EventKind.SOURCE_RECOVERED:
            self._tell(event.at, event.outcome, "✓", "well again", "bold green")

    def _finished(self, at: datetime, outcome: Outcome) -> None:
        source_id = outcome.source.id
        self.under_way.pop(source_id, None)
        self.last[source_id] = outcome
        self.polls[source_id] += 1
        self.posts[source_id] += len(outcome.posts)
        self.outcomes[outcome.kind] += 1
        if outcome.failure is not None:
            self._tell(at, outcome, "!", outcome.failure.message, "yellow")
        elif outcome.posts:
            new = words.counted(len(outcome.posts), "new post")
            self._tell(at, outcome, "+", f"{new}: {outcome.posts[0].title}", "green")
        else:
            told = f"nothing new ({outcome.status})"
            self._tell(at, outcome, "·", told, "dim")
        if outcome.hold is not None:
            held = (outcome.hold.until - outcome.hold.set_at).total_seconds()
            told = f"asks to be left alone: on hold for {words.span(held)}"
            self._tell(at, outcome, "⏸", told, "bold yellow")

    def _tell(self, at: datetime, outcome: Outcome, mark: str, told: str, style: str) -> None:
        host = self.stage.host(outcome.source.id)
        line = Text(f"{at:%H:%M:%S} ", style="dim").append(f"{mark} {host:<14} ", style=style)
        self.lines.append(line.append(told, style=style if style != "green" else "none"))
