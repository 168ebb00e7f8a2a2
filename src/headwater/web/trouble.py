"""What went wrong with a visit, in plain words, and what a person can do about it."""

from dataclasses import dataclass

from headwater.errors import FetchError, KeyMissing, SecretError
from headwater.model import FailureType
from headwater.rules.failure import classify
from headwater.web.failure_words import is_server_trouble, words_for


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a visit failed, for whoever asked for it."""

    title: str
    advice: str
    message: str  # what exactly happened, as it would stand in the log
    may_pass: bool = False  # it makes sense to add the source all the same
    needs_key: bool = False  # the way out is under Accounts
    try_http: bool = False  # perhaps the site has no encryption
    try_front: bool = False  # perhaps another page of the site knows better


_MAY_PASS = frozenset({"429", "hold", "timeout", "connection", "busy", "key", "local", "TLS"})


def trouble_of(error: FetchError | SecretError, *, on_x: bool = False) -> Trouble:
    """An error of a visit as the page tells it."""
    if isinstance(error, SecretError):
        return _unreadable_key(error)
    failure = classify(error)
    kind = failure.kind
    may_pass = is_server_trouble(kind) or kind in _MAY_PASS
    words = words_for(kind, on_x=on_x)
    return Trouble(
        words.what,
        words.advice,
        failure.message,
        may_pass=failure.type is FailureType.TRANSIENT and may_pass,
        needs_key=isinstance(error, KeyMissing) or (on_x and kind == "401"),
        try_http=kind in ("TLS", "connection", "timeout"),
        try_front=not on_x and kind in ("404", "410", "no content", "redirect"),
    )


def _unreadable_key(error: SecretError) -> Trouble:
    return Trouble(
        "The stored X key cannot be read",
        "The key that it was sealed with is gone. Store your X key anew under Accounts.",
        classify(error).message,
        may_pass=True,
        needs_key=True,
    )
