"""RecentFailures: which sources failed of late, and what they have in common."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import nlargest

from headwater.store.poll_tallies import FailedPoll

_MOST = 10_000  # sources remembered; the ones that failed longest ago are let go
_LASTS = timedelta(hours=25)  # a source that backs off is asked once a day at the latest
_SHOWN = 3
Group = dict[str, FailedPoll]  # by source


@dataclass(frozen=True, slots=True)
class Cause:
    """Sources of one host that fail in the same way."""

    host: str | None
    kind: str
    sources: int
    disabled: int  # how many of them are switched off
    podcast_id: str | None  # None: they are of several
    newest: tuple[FailedPoll, ...]  # some of them, the last to fail first

    @property
    def last_at(self) -> datetime:
        """When it happened last."""
        return self.newest[0].at


class RecentFailures:
    """The sources that failed in their last poll, grouped by host and kind."""

    def __init__(self) -> None:
        self._failed: OrderedDict[str, FailedPoll] = OrderedDict()  # longest ago first
        self._groups: dict[tuple[str | None, str], Group] = {}

    def __len__(self) -> int:
        """How many sources are remembered."""
        return len(self._failed)

    def failed(self, poll: FailedPoll) -> None:
        """Remember that a source failed."""
        self.forget(poll.source_id)
        self._put(poll)
        while len(self._failed) > _MOST or self._oldest().at < poll.at - _LASTS:
            self.forget(self._oldest().source_id)

    def forget(self, source_id: str) -> None:
        """A source is well again, or gone."""
        known = self._failed.pop(source_id, None)
        if known is not None:
            key = known.host, known.kind
            group = self._groups[key]
            del group[source_id]
            if not group:
                del self._groups[key]

    def restore(self, polls: Iterable[FailedPoll], now: datetime) -> None:
        """Take over older failures, newest first; what is known already is newer."""
        for poll in polls:
            full = len(self._failed) >= _MOST
            if not full and poll.source_id not in self._failed and poll.at >= now - _LASTS:
                self._put(poll)
                self._failed.move_to_end(poll.source_id, last=False)

    def causes(self, owner: str | None, most: int) -> tuple[Sequence[Cause], int]:
        """The causes that hit most sources of an owner, or of all; and how many there are."""
        groups = list(self._groups.values())
        if owner is not None:
            owned = ([p for p in group.values() if p.owner == owner] for group in groups)
            groups = [{poll.source_id: poll for poll in polls} for polls in owned if polls]
        return [_cause(group) for group in nlargest(most, groups, key=_weight)], len(groups)

    def _put(self, poll: FailedPoll) -> None:
        self._failed[poll.source_id] = poll
        self._groups.setdefault((poll.host, poll.kind), {})[poll.source_id] = poll

    def _oldest(self) -> FailedPoll:
        return next(iter(self._failed.values()))


def _weight(group: Group) -> tuple[int, datetime]:
    return len(group), max(poll.at for poll in group.values())


def _cause(group: Group) -> Cause:
    newest = nlargest(_SHOWN, group.values(), key=lambda poll: poll.at)
    podcasts = {poll.podcast_id for poll in group.values()}
    return Cause(
        host=newest[0].host,
        kind=newest[0].kind,
        sources=len(group),
        disabled=sum(poll.disabled for poll in group.values()),
        podcast_id=podcasts.pop() if len(podcasts) == 1 else None,
        newest=tuple(newest),
    )
