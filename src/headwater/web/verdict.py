"""How a source is, in plain words: what is wrong, what happens next, what to do about it."""

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.model import FailureType, Health, PollRecord, Source
from headwater.operations.overview import SourceView
from headwater.rules.policy import Policy

_SERVER_ERROR = (
    "its server has trouble of its own",
    "Nothing: the trouble is on their side and usually passes by itself.",
)
_UNKNOWN = (
    "something went wrong that has no name yet",
    "Read the error; if it stays, look at the address in a browser.",
)
# per kind of failure: what it means, and what a person can do
_KINDS: dict[str, tuple[str, str]] = {
    "404": (
        "there is nothing at this address any more (404)",
        (
            "Open the site, look for its feed or page, and put the new address into the settings "
            "below. If it is gone for good, delete the source."
        ),
    ),
    "410": (
        "the site says that this address is gone for good (410)",
        (
            "Look for a new address on the site and put it into the settings below, or delete "
            "the source."
        ),
    ),
    "401": (
        "the site asks for a login (401)",
        (
            "If you have an account there, put it into the address: "
            "https://name:password@example.org/feed. Otherwise look for a public address."
        ),
    ),
    "403": (
        "the site refuses to show this to us (403)",
        (
            "Open the address in a browser. If it works there, the site turns programs away: look "
            "for a feed of it, or ask its owner."
        ),
    ),
    "429": (
        "the site says that it is asked too often (429)",
        (
            "Nothing: Headwater waits as long as the site asks for. If it happens often, give this "
            "source a longer interval, or a longer delay."
        ),
    ),
    "DNS": (
        "the name of the site does not exist",
        (
            "Check the spelling of the address in the settings below. If the site has moved, put "
            "its new address there; if it has closed, delete the source."
        ),
    ),
    "permanent": (
        "every answer was a refusal, of different kinds",
        "Open the address in a browser, and put the right one into the settings below.",
    ),
    "timeout": (
        "the site took too long to answer",
        "Nothing: it may be busy. If it stays so for days, open the address in a browser.",
    ),
    "connection": (
        "no connection to the site could be made",
        "Nothing: it may be down for a while. If it stays so, check the address.",
    ),
    "TLS": (
        "the site's certificate is not valid, so nobody can tell whether it is really the site",
        "Its owner has to mend that. Open the address in a browser to see what is wrong.",
    ),
    "address": (
        "the address leads into a private network, where Headwater does not go",
        "Use a public address, or allow the network with app.fetch.allow-private-networks.",
    ),
    "redirect": (
        "the site sends us round in circles, or to nowhere",
        "Open the address in a browser and put the one it ends at into the settings below.",
    ),
    "too large": (
        "the answer is larger than Headwater reads",
        "Look for a smaller feed of the site, or raise app.fetch.max-body-bytes.",
    ),
    "broken body": (
        "the answer was cut short on its way",
        "Nothing: the next poll gets it anew.",
    ),
    "busy": (
        "a site that it redirects to had no turn for us in time",
        "Put the address that it redirects to into the settings below.",
    ),
    "hold": (
        "its host asked to be left alone",
        "Nothing: Headwater asks again when the time is over.",
    ),
    "key": (
        "reading X needs an API key, and the owner of this podcast has none",
        "Add the X API key under Accounts; the source is polled as soon as it is there.",
    ),
    "parse": (
        "what came back is no feed",
        (
            "Open the address in a browser. If it is a web page, set the type to website below, or "
            "look for the address of its feed."
        ),
    ),
    "no content": (
        "the page has no text to read",
        "Pages that scripts fill in a browser cannot be read. Look for a feed of the site.",
    ),
    "too expensive": (
        "the answer is so odd that reading it took too long",
        "Look for another feed of the site, or tell its owner.",
    ),
    "local": (
        "this machine could not ask, which is not the source's fault",
        "Check the network of the machine that Headwater runs on.",
    ),
    "URL": (
        "the address cannot be visited",
        "Put the right address into the settings below.",
    ),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of a source's health; None: there is nothing to say."""

    headline: str
    then: str  # what happens next
    why: str | None = None
    todo: str | None = None


def verdict_of(view: SourceView, polls: Sequence[PollRecord], policy: Policy) -> Verdict:
    """How a source is; `polls` are its last ones, newest first."""
    source = view.source
    match view.health:
        case Health.DISABLED:
            return _disabled(source)
        case Health.FAILING:
            return _failing(source, _kind(source, polls), policy)
        case Health.NEW:
            return Verdict("New: it has not been polled with success yet.", _first_poll(source))
    if view.held:
        return Verdict(
            headline="Fine, but its host asked to be left alone for a while.",
            then="It is polled again when that time is over.",
            why=None if view.hold is None else f"{view.hold.reason}.",
        )
    return Verdict(headline="Everything is fine.", then="It goes on being polled at its interval.")


def _first_poll(source: Source) -> str:
    if source.requested_at is not None:
        return "A poll was asked for; it is made as soon as its host's turn comes."
    spread = "First polls are spread over one interval, so that no host is overrun."
    return f"{spread} Poll now does not wait for that."


def _disabled(source: Source) -> Verdict:
    if source.disabled_reason is None:
        return Verdict(
            headline="Switched off by a person.",
            then="Nothing: it is polled by hand only, until somebody enables it again.",
            todo="Enable it to have it polled again. What was stored stays either way.",
        )
    what, todo = _words(source.permanent_kind)
    count = source.permanent_failures
    times = f"{count:,} times in a row" if count > 1 else "once"
    return Verdict(
        headline="Switched off by Headwater, because it kept failing.",
        why=f"{what[0].upper()}{what[1:]}; that was so {times}.",
        then="Nothing: it is not polled until somebody enables it again.",
        todo=f"{todo} Then enable it again: its failures are forgotten and it is polled at once.",
    )


def _failing(source: Source, kind: str | None, policy: Policy) -> Verdict:
    count = source.consecutive_failures
    what, todo = _words(kind)
    then = "Headwater keeps trying, each time after a longer rest, and never gives up over this."
    if source.last_failure_type is FailureType.PERMANENT:
        limit = policy.max_failures if source.max_failures is None else source.max_failures
        then = (
            "Headwater tries again after a longer rest. After "
            f"{limit:,} such answers in a row it switches the source off; "
            f"so far there {'was' if source.permanent_failures == 1 else 'were'} "
            f"{source.permanent_failures:,}."
        )
    return Verdict(
        headline="The last poll failed." if count == 1 else f"The last {count:,} polls failed.",
        why=f"{what[0].upper()}{what[1:]}.",
        then=then,
        todo=todo,
    )


def _kind(source: Source, polls: Sequence[PollRecord]) -> str | None:
    kinds = (poll.failure_kind for poll in polls if poll.failure_kind is not None)
    return next(kinds, source.permanent_kind)


def _words(kind: str | None) -> tuple[str, str]:
    if kind is not None and len(kind) == 3 and kind.startswith("5"):
        what, todo = _SERVER_ERROR
        return f"{what} ({kind})", todo
    return _KINDS.get(kind or "", _UNKNOWN)
