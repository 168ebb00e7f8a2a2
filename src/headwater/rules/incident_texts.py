"""What an incident says: its title, and the recommended action (Y1, Y2)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from headwater.rules.url_secrets import masked


@dataclass(frozen=True, slots=True)
class SourceState:
    """The state of a source that has a problem, or had one."""

    id: str
    user_id: str
    host: str | None
    name: str
    enabled: bool = True
    failures: int = 0
    failing_since: datetime | None = None
    auto_disabled: bool = False
    kinds: tuple[str | None, ...] = ()  # failures of its last polls, newest first
    silent_since: datetime | None = None  # its newest post, if it is silent
    pace: str | None = None  # what is usual: `5 a week`
    suggested_url: str | None = None  # that it has moved to, or that was found (Y4, Y5)

    @property
    def is_failing(self) -> bool:
        """Whether it fails, or failures disabled it; a user's own choice is not a problem (Y2)."""
        return self.auto_disabled or (self.enabled and self.failures > 0)


class _Cause(NamedTuple):
    """Why sources fail, and what to do about it."""

    reason: str
    advice: str


_NO_ANSWER = "Open the address in a browser. If it works there, wait; otherwise look for another."
_GONE = "Open the site, find the new address and enter it; otherwise delete the source."
_CAUSES: Mapping[str, _Cause] = {
    "404": _Cause("nothing is at the address any more (404)", _GONE),
    "410": _Cause("the site says that it is gone for good (410)", _GONE),
    "401": _Cause(
        "the site asks for a login (401)",
        "Enter an address with your login, or one that is public; otherwise delete the source.",
    ),
    "login": _Cause(
        "the address leads to a login",
        "Look for a feed or a page of the site that opens without a login, and enter its address; "
        "otherwise delete the source.",
    ),
    "403": _Cause(
        "the site denies access (403)",
        "Open the address in a browser. If it works there, the site rejects programs: use its "
        "feed, or ask its owner.",
    ),
    "429": _Cause(
        "too many requests for the site (429)",
        "Poll these sources less often: a longer interval, or a longer delay for the host.",
    ),
    "DNS": _Cause(
        "the host name does not exist",
        "Check the spelling of the address. If the site has moved, enter its new address; "
        "otherwise delete the source.",
    ),
    "TLS": _Cause(
        "there is no safe connection to the site",
        "Its certificate is not valid. Open the address in a browser, and tell the owner.",
    ),
    "parse": _Cause("the answer is not a feed", _GONE),
    "timeout": _Cause("the site does not answer in time", _NO_ANSWER),
    "connection": _Cause("the site does not respond", _NO_ANSWER),
    "key": _Cause(
        "an X key is needed", "Store an X key: on the Accounts page, or with `headwater keys set`."
    ),
    "address": _Cause(
        "the address is in a private network",
        "Use a public address, or let the administrator allow it (app.fetch.allow-private-"
        "networks).",
    ),
    "selector": _Cause(
        "the selected part of the page is missing",
        "The page was redesigned. Open the source and choose the watched parts again.",
    ),
}
_SERVER_ERROR = _Cause(
    "the site has an error",
    "The error is on their side and usually ends by itself. If it stays, look for another address.",
)
_OTHER = _Cause(
    "every poll fails", "Open the source: its last error says why. Then correct its settings."
)


def texts(kind: str, host: str | None, states: Sequence[SourceState]) -> tuple[str, str]:
    """Title and advice of an incident of these sources."""
    return _TEXTS[kind](host, states)


def _disabled(host: str | None, states: Sequence[SourceState]) -> tuple[str, str]:
    cause = _cause(states)
    title = f"Headwater has given up on {_named(host, states)}: {cause.reason}"
    return title, _suggested(
        states
    ) or f"{cause.advice} Then enable {'it' if len(states) == 1 else 'them'} again."


def _failing(host: str | None, states: Sequence[SourceState]) -> tuple[str, str]:
    cause = _cause(states)
    has = "has" if len(states) == 1 else "have"
    title = f"{_capital(_named(host, states))} {has} failed{_since(states)}: {cause.reason}"
    given_up = [state for state in states if state.auto_disabled]
    if given_up:
        title += f"; Headwater has given up on {_named(host, given_up)}"
    return title, _suggested(states) or cause.advice


def _suggested(states: Sequence[SourceState]) -> str | None:
    """The advice to accept suggested addresses; None: there are none."""
    urls = [masked(state.suggested_url) for state in states if state.suggested_url is not None]
    if not urls:
        return None
    if len(states) == 1:
        return f"Accept the new address that was found for it: {urls[0]}"
    number = f"{len(urls)} of these sources"
    return f"Accept the new addresses that were found for {number}, such as {urls[0]}"


def _selector(host: str | None, states: Sequence[SourceState]) -> tuple[str, str]:
    cause = _CAUSES["selector"]
    return f"{_capital(_named(host, states))}: {cause.reason}", cause.advice


def _rejecting(host: str | None, states: Sequence[SourceState]) -> tuple[str, str]:
    cause = _cause(states)
    return f"{host or 'A site'} has rejected every request for hours: {cause.reason}", cause.advice


def _storm(host: str | None, states: Sequence[SourceState]) -> tuple[str, str]:
    cause = _cause(states)
    title = f"{host} fails for {_named(None, states)} in the same way: {cause.reason}"
    return title, (
        "Wait: the site has a problem. Headwater keeps trying and gives up no source meanwhile. "
        "If it lasts for days, open the site and look for new addresses."
    )


def _silent(host: str | None, states: Sequence[SourceState]) -> tuple[str, str]:
    name = _capital(_named(host, states))
    advice = (
        "Open the site. If it publishes elsewhere now, enter the new address; if it has ended, "
        "disable or delete the source."
    )
    if len(states) > 1:
        return f"{name} have published nothing for much longer than usual", advice
    since, pace = states[0].silent_since, states[0].pace
    title = f"{name} has published nothing" + ("" if since is None else f" since {_day(since)}")
    return title + ("" if pace is None else f" (usually {pace})"), advice


def _outage(_host: str | None, _states: Sequence[SourceState]) -> tuple[str, str]:
    return (
        "This machine seems to be offline",
        "Check its network and name servers. No failure is counted against a source meanwhile.",
    )


def _storing(_host: str | None, _states: Sequence[SourceState]) -> tuple[str, str]:
    return (
        "New posts cannot be stored",
        "Check that the database runs and that its disk has space; `headwater doctor` helps.",
    )


def _disk(_host: str | None, _states: Sequence[SourceState]) -> tuple[str, str]:
    return (
        "The disk of the database is nearly full",
        "Free some space on it; `headwater vacuum` returns unused space of the database.",
    )


_TEXTS: Mapping[str, Callable[[str | None, Sequence[SourceState]], tuple[str, str]]] = {
    "disabled": _disabled,
    "failing": _failing,
    "selector": _selector,
    "rejecting": _rejecting,
    "storm": _storm,
    "silent": _silent,
    "outage": _outage,
    "storing": _storing,
    "disk": _disk,
}


def _cause(states: Sequence[SourceState]) -> _Cause:
    """The common cause; a general one if they differ."""
    kinds = {state.kinds[0] if state.kinds else None for state in states}
    causes = {_cause_of(kind) for kind in kinds}
    return causes.pop() if len(causes) == 1 else _OTHER


def _cause_of(kind: str | None) -> _Cause:
    if kind is not None and len(kind) == 3 and kind.isdigit() and kind.startswith("5"):
        return _SERVER_ERROR
    return _CAUSES.get(kind or "", _OTHER)


def _named(host: str | None, states: Sequence[SourceState]) -> str:
    if len(states) == 1:
        return f"“{states[0].name}”"
    return f"{len(states):,} sources" + ("" if host is None else f" of {host}")


def _since(states: Sequence[SourceState]) -> str:
    """The day of the first failure; not known if a requested poll of a disabled source worked."""
    known = [state.failing_since for state in states if state.failing_since is not None]
    return f" since {_day(min(known))}" if known else ""


def _day(moment: datetime) -> str:
    return f"{moment.day} {moment:%B %Y}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
