"""Texts for kinds of failure, for all pages: what happened, and what to do."""

from dataclasses import dataclass
from typing import NamedTuple

from headwater.errors import FetchError, KeyMissing, SecretError
from headwater.model import FailureType
from headwater.rules.failure_kinds import classify
from headwater.web.texts import TEXTS


class FailureText(NamedTuple):
    """The texts for a kind of failure."""

    tag: str  # for lists
    what: str  # a sentence without its full stop
    todo: str  # for an existing source
    advice: str  # for an address to be added


_KINDS = {kind: FailureText(**texts) for kind, texts in TEXTS["failures"].items()}
_ON_X = {kind: FailureText(**texts) for kind, texts in TEXTS["failures_on_x"].items()}
_UNKNOWN = _KINDS["unknown"]
_MAY_PASS = frozenset({"429", "hold", "timeout", "connection", "busy", "key", "local", "TLS"})


def text_for(kind: str | None, *, on_x: bool = False) -> FailureText:
    """Return the texts for a kind of failure."""
    if kind is not None and is_server_error(kind):
        return _KINDS["5xx"]
    known = _KINDS | _ON_X if on_x else _KINDS
    return known.get(kind or "", _UNKNOWN)


def tag_for(kind: str) -> str:
    """Return the tag of a kind of failure, with its HTTP status."""
    text = text_for(kind)
    if not kind.isdigit():
        return text.tag
    return f"HTTP {kind}" if text is _UNKNOWN else f"{text.tag} ({kind})"


def outage_for(kind: str) -> str:
    """Return the text for an outage of this machine's network (O2, O3)."""
    if kind == "DNS":
        return "no name can be looked up"
    return f"sites that worked all fail in the same way: {tag_for(kind)}"


def is_server_error(kind: str) -> bool:
    """Return whether a kind is an HTTP status 5xx."""
    return len(kind) == 3 and kind.isdigit() and kind.startswith("5")


@dataclass(frozen=True, slots=True)
class FetchProblem:
    """Why the fetch of a new source failed, and what to try."""

    title: str
    advice: str
    message: str  # the exact error, as in the log
    may_pass: bool = False  # adding the source makes sense nevertheless
    needs_key: bool = False  # an X key must be stored under Accounts
    try_http: bool = False  # the site may have no TLS
    try_front: bool = False  # the front page may name a feed
    try_page: bool = False  # the page may be readable although it asks for a login


def fetch_problem(error: FetchError | SecretError, *, on_x: bool = False) -> FetchProblem:
    """Return the texts for a failed fetch."""
    failure = classify(error)
    unreadable = isinstance(error, SecretError)
    kind = "unreadable key" if unreadable else failure.kind
    text = text_for(kind, on_x=on_x)
    is_transient = failure.type is FailureType.TRANSIENT
    return FetchProblem(
        text.what,
        text.advice,
        failure.message,
        may_pass=is_transient and (unreadable or is_server_error(kind) or kind in _MAY_PASS),
        needs_key=unreadable or isinstance(error, KeyMissing) or (on_x and kind == "401"),
        try_http=kind in ("TLS", "connection", "timeout"),
        try_front=not on_x and kind in ("404", "410", "no content", "redirect", "login"),
        try_page=kind == "login",
    )
