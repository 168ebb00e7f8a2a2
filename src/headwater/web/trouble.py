"""What went wrong with a visit, in plain words, and what a person can do about it."""

from dataclasses import dataclass
from typing import NamedTuple

from headwater.errors import FetchError, KeyMissing, SecretError
from headwater.model import FailureType
from headwater.rules.failure import classify


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


class _Said(NamedTuple):
    title: str
    advice: str


_GONE = _Said(
    "There is nothing at this address",
    "Look for a typing mistake, or start from the site's front page: Headwater finds its feeds.",
)
_NOT_LET_IN = _Said(
    "The server does not let Headwater in",
    "It asks for a login, or refuses programs. If it offers a feed for subscribers, paste the "
    "address it gave you, which usually holds a key.",
)
_TROUBLE = _Said(
    "The server has trouble of its own",
    "That usually passes. Try again later, or add it now: Headwater keeps trying, less and less "
    "often.",
)
_LEFT_ALONE = _Said(
    "The host wants to be left alone for now",
    "It has been asked too often and said until when. Add it now and it is polled as soon as the "
    "host allows it, or come back later.",
)
_WORDS: dict[str, _Said] = {
    "404": _GONE,
    "410": _GONE,
    "401": _NOT_LET_IN,
    "403": _NOT_LET_IN,
    "429": _LEFT_ALONE,
    "hold": _LEFT_ALONE,
    "DNS": _Said(
        "This name does not exist",
        "No site has that name. Look for a typing mistake in the part before the first slash.",
    ),
    "timeout": _Said(
        "The server takes too long",
        "It did not answer in time. Try again, or add it now: Headwater keeps trying.",
    ),
    "TLS": _Said(
        "There is no safe connection",
        "The site's certificate is not valid, or it speaks no encryption that can be trusted.",
    ),
    "connection": _Said(
        "Nobody answers there",
        "The connection was refused or broke off. Look at the address, or try again later.",
    ),
    "address": _Said(
        "This address is not open to Headwater",
        "It belongs to a private or local network, which is never visited unless whoever runs "
        "Headwater allows it (app.fetch.allow-private-networks).",
    ),
    "redirect": _Said(
        "The address leads nowhere",
        "It sends visitors on without end, or to somewhere that is no web address. Open it in "
        "your browser and paste the address you arrive at.",
    ),
    "too large": _Said(
        "There is more than Headwater takes",
        "The answer is larger than the limit (app.fetch.max-body-bytes). Many sites have a "
        "shorter feed besides.",
    ),
    "broken body": _Said(
        "The answer was cut off",
        "It broke off before its end. Try again in a moment.",
    ),
    "busy": _Said(
        "The host is busy with other polls",
        "Headwater visits a host once at a time. Try again in a moment, or add it now: it is "
        "polled when its turn comes.",
    ),
    "key": _Said(
        "X needs a key of yours",
        "X shows timelines only to whoever has an API key (a bearer token). Store yours under "
        "Accounts, then preview again. You can also add it now: it is polled once there is a key.",
    ),
    "parse": _Said(
        "This is not a feed",
        "There is something at this address, but it cannot be read as a feed. Preview it "
        "without saying what it is, and Headwater finds out.",
    ),
    "no content": _Said(
        "This page has no text to read",
        "It names no feed either. Pages that scripts put together look empty to Headwater: look "
        "for a feed, or for another page with the text in it.",
    ),
    "too expensive": _Said(
        "This cannot be read in reasonable time",
        "The document is built so oddly that reading it takes too long.",
    ),
    "local": _Said(
        "This machine could not ask",
        "It seems that the machine Headwater runs on has no connection. Try again later, or "
        "add it now: it is polled once the connection is back.",
    ),
}
_X_WORDS: dict[str, _Said] = {
    "401": _Said(
        "X refuses your key",
        "It is not valid any more. Store a working one under Accounts, then preview again.",
    ),
    "403": _Said(
        "X does not show this to your key",
        "The account is protected or suspended, or the key has not the right to read it.",
    ),
    "404": _Said(
        "X knows nobody of that name",
        "Look for a typing mistake. Accounts that were renamed or suspended are not found either.",
    ),
}
_UNKNOWN = _Said(
    "That did not work", "Try again; if it happens every time, the words below say why."
)
_MAY_PASS = frozenset({"429", "hold", "timeout", "connection", "busy", "key", "local", "TLS"})


def trouble_of(error: FetchError | SecretError, *, on_x: bool = False) -> Trouble:
    """An error of a visit as the page tells it."""
    if isinstance(error, SecretError):
        return _unreadable_key(error)
    failure = classify(error)
    kind = failure.kind
    is_server = kind.isdigit() and kind.startswith("5")
    words = _WORDS | _X_WORDS if on_x else _WORDS
    title, advice = _TROUBLE if is_server else words.get(kind, _UNKNOWN)
    return Trouble(
        title,
        advice,
        failure.message,
        may_pass=failure.type is FailureType.TRANSIENT and (is_server or kind in _MAY_PASS),
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
