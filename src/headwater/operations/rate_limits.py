"""Rate limits per key in memory, and those for visits that users cause directly (Y8)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from headwater.clock import Clock
from headwater.errors import TooMany
from headwater.model import Source
from headwater.rules.urls import url_host

POLL_SECONDS = 10
MOST_VISITS = 10  # to one host, in the same time
MOST_KEYS = 100_000


@dataclass(frozen=True, slots=True)
class Window:
    """The events of a key since the first one; `previous`: those of its window before that."""

    ends_at: float
    count: int
    previous: int


class RateWindows:
    """Counts events by key, in windows that start with the first event of a key."""

    def __init__(self, clock: Clock, seconds: float, *, most_keys: int = MOST_KEYS) -> None:
        self._clock = clock
        self._seconds = seconds
        self._most_keys = most_keys
        self._windows: dict[str, Window] = {}  # in the order of their start

    def add(self, key: str) -> Window:
        """Count an event; beyond the maximum number of keys the oldest one is forgotten."""
        now = self._clock.monotonic()
        window = self._windows.get(key)
        if window is None or window.ends_at <= now:
            self._windows.pop(key, None)
            if len(self._windows) >= self._most_keys:
                del self._windows[next(iter(self._windows))]
            window = Window(now + self._seconds, 0, 0 if window is None else window.count)
        window = self._windows[key] = replace(window, count=window.count + 1)
        return window

    def seconds_left(self, window: Window) -> int:
        """Whole seconds until a window is over, for Retry-After."""
        return math.ceil(window.ends_at - self._clock.monotonic())


class VisitLimits:
    """Limits for manual polls and previews by users; administrators have none (Y8).

    `user_id` is that of the caller, None for an administrator.
    """

    def __init__(self, clock: Clock) -> None:
        self._polls = RateWindows(clock, POLL_SECONDS)
        self._new_keys = RateWindows(clock, POLL_SECONDS)
        self._visits = RateWindows(clock, POLL_SECONDS)
        self._notices = RateWindows(clock, POLL_SECONDS)

    def check_poll(self, user_id: str | None, source: Source) -> None:
        """Count a manual poll; TooMany if the source was polled manually in the last seconds."""
        if user_id is not None:
            self._count_poll(source)
            self.check_visit(user_id, source.url)

    def check_poll_for(self, user_id: str | None) -> Callable[[Source], None] | None:
        """The limit of the polls that edits of a user request; None for an administrator.

        Without that of visits to a host: a user may edit many sources of one host in a row.
        """
        return None if user_id is None else self._count_poll

    def _count_poll(self, source: Source) -> None:
        window = self._polls.add(source.id)
        if window.count > 1:
            raise TooMany(
                f"a source can be polled manually once in {POLL_SECONDS} seconds",
                retry_seconds=self._polls.seconds_left(window),
            )

    def check_test(self, user_id: str | None) -> None:
        """Count test messages to a user's channels; TooMany if there were some just now (Y3)."""
        if user_id is None:
            return
        window = self._notices.add(user_id)
        if window.count > 1:
            raise TooMany(
                f"test messages can be sent once in {POLL_SECONDS} seconds",
                retry_seconds=self._notices.seconds_left(window),
            )

    def check_visit(self, user_id: str | None, url: str) -> None:
        """Count a visit to a URL's host; TooMany if the user caused too many in the last seconds.

        It limits previews, sources that are added and polled at once under ever new ids, and
        messages to webhooks that are tests or sent again.
        """
        if user_id is None:
            return
        window = self._visits.add(f"{user_id} {url_host(url)}")
        if window.count > MOST_VISITS:
            raise TooMany(
                f"{MOST_VISITS} manual polls, previews and test messages are possible for a host "
                f"in {POLL_SECONDS} seconds",
                retry_seconds=self._visits.seconds_left(window),
            )

    def pollable_for(self, user_id: str | None) -> Callable[[Sequence[str]], Sequence[str]] | None:
        """The limit of the manual polls in a batch; None for an administrator."""
        return None if user_id is None else partial(self.pollable, user_id)

    def pollable(self, user_id: str | None, source_ids: Sequence[str]) -> Sequence[str]:
        """Count a manual poll of each source; those that were not polled in the last seconds."""
        if user_id is None:
            return source_ids
        return [id_ for id_ in source_ids if self._polls.add(id_).count == 1]

    def pollable_with_key_for(
        self, user_id: str | None
    ) -> Callable[[Sequence[str]], Sequence[str]] | None:
        """The limit of the polls that a stored key requests; None for an administrator."""
        return None if user_id is None else self._pollable_with_key

    def _pollable_with_key(self, source_ids: Sequence[str]) -> Sequence[str]:
        """Count a manual poll of each source; those that no key requested in the last seconds.

        Earlier manual polls do not matter: without a key they sent no request (S9).
        """
        for id_ in source_ids:
            self._polls.add(id_)
        return [id_ for id_ in source_ids if self._new_keys.add(id_).count == 1]
