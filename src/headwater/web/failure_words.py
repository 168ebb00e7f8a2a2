"""Kinds of failure in words, once for all screens: what happened, and what a person can do."""

from typing import NamedTuple


class Words(NamedTuple):
    """A kind of failure, for a list, for whoever watches the source, and for whoever adds it."""

    tag: str
    what: str  # a sentence without its full stop
    todo: str  # about a source that is watched
    advice: str  # about an address that is looked at, to be added


_LATER = "Try again later, or add it now: Headwater keeps trying, less and less often."
_LOOK_AND_MEND = "Open the address in a browser, and put the right one into the settings below."
_UNKNOWN = Words(
    "something unknown",
    "Something went wrong that has no name yet",
    "Read the error; if it stays, look at the address in a browser.",
    "Try again; if it happens every time, the words below say why.",
)
_SERVER_TROUBLE = Words(
    "server trouble",
    "The server has trouble of its own",
    "Nothing: the trouble is on their side and usually passes by itself.",
    f"That usually passes. {_LATER}",
)
_LEFT_ALONE = Words(
    "on hold",
    "The host wants to be left alone for now",
    "Nothing: Headwater waits as long as the host asks for. If it happens often, give this "
    "source a longer interval, or a longer delay.",
    "It has been asked too often and said until when. Add it now and it is polled as soon as the "
    "host allows it, or come back later.",
)
_KINDS: dict[str, Words] = {
    "404": Words(
        "nothing there",
        "There is nothing at this address",
        "Open the site, look for its feed or page, and put the new address into the settings "
        "below. If it is gone for good, delete the source.",
        "Look for a typing mistake, or start from the site's front page: Headwater finds its "
        "feeds.",
    ),
    "410": Words(
        "gone for good",
        "The site says that this address is gone for good",
        "Look for a new address on the site and put it into the settings below, or delete the "
        "source.",
        "Start from the site's front page: Headwater finds its feeds.",
    ),
    "401": Words(
        "asks for a login",
        "The site asks for a login",
        "If you have an account there, put it into the address: "
        "https://name:password@example.org/feed. Otherwise look for a public address.",
        "If it offers a feed for subscribers, paste the address it gave you, which usually holds "
        "a key.",
    ),
    "403": Words(
        "not let in",
        "The server does not let Headwater in",
        "Open the address in a browser. If it works there, the site turns programs away: look "
        "for a feed of it, or ask its owner.",
        "It asks for a login, or refuses programs. If it offers a feed for subscribers, paste "
        "the address it gave you, which usually holds a key.",
    ),
    "429": _LEFT_ALONE._replace(tag="asked too often"),
    "hold": _LEFT_ALONE,
    "permanent": Words(
        "refused",
        "Every answer was a refusal, of different kinds",
        _LOOK_AND_MEND,
        "Open the address in your browser and paste the one that works there.",
    ),
    "DNS": Words(
        "no such name",
        "This name does not exist",
        "Check the spelling of the address in the settings below. If the site has moved, put its "
        "new address there; if it has closed, delete the source.",
        "No site has that name. Look for a typing mistake in the part before the first slash.",
    ),
    "URL": Words(
        "no web address",
        "The address cannot be visited",
        "Put the right address into the settings below.",
        "Look for a typing mistake in it.",
    ),
    "timeout": Words(
        "no answer in time",
        "The server takes too long to answer",
        "Nothing: it may be busy. If it stays so for days, open the address in a browser.",
        "It did not answer in time. Try again, or add it now: Headwater keeps trying.",
    ),
    "connection": Words(
        "no connection",
        "Nobody answers there",
        "Nothing: it may be down for a while. If it stays so, check the address.",
        "The connection was refused or broke off. Look at the address, or try again later.",
    ),
    "TLS": Words(
        "certificate not valid",
        "There is no safe connection to the site",
        "Its certificate is not valid, and its owner has to mend that. Open the address in a "
        "browser to see what is wrong.",
        "Its certificate is not valid, or it speaks no encryption that can be trusted.",
    ),
    "address": Words(
        "private address",
        "This address is not open to Headwater",
        "It leads into a private network. Use a public address, or allow the network with "
        "app.fetch.allow-private-networks.",
        "It belongs to a private or local network, which is never visited unless whoever runs "
        "Headwater allows it (app.fetch.allow-private-networks).",
    ),
    "redirect": Words(
        "leads nowhere",
        "The address leads nowhere",
        "It sends visitors round in circles. Open it in a browser, and put the address that you "
        "arrive at into the settings below.",
        "It sends visitors on without end, or to somewhere that is no web address. Open it in "
        "your browser and paste the address you arrive at.",
    ),
    "too large": Words(
        "answer too large",
        "There is more than Headwater takes",
        "Look for a smaller feed of the site, or raise app.fetch.max-body-bytes.",
        "The answer is larger than the limit (app.fetch.max-body-bytes). Many sites have a "
        "shorter feed besides.",
    ),
    "broken body": Words(
        "answer cut off",
        "The answer was cut off",
        "Nothing: the next poll gets it anew.",
        "It broke off before its end. Try again in a moment.",
    ),
    "busy": Words(
        "no turn in time",
        "The host had no turn for it in time",
        "Nothing, if it happens now and then. If it redirects to another host, put the address "
        "that it leads to into the settings below.",
        "Headwater visits a host once at a time, and this one is busy. Try again in a moment, or "
        "add it now: it is polled when its turn comes.",
    ),
    "key": Words(
        "no X key",
        "X needs a key of yours",
        "Reading X takes the API key of the podcast's owner, and there is none. Store it under "
        "Accounts; the source is polled as soon as it is there.",
        "X shows timelines only to whoever has an API key (a bearer token). Store yours under "
        "Accounts, then preview again. You can also add it now: it is polled once there is a key.",
    ),
    "parse": Words(
        "not a feed",
        "This is not a feed",
        "Open the address in a browser. If it is a web page, set the type to website below, or "
        "look for the address of its feed.",
        "There is something at this address, but it cannot be read as a feed. Preview it without "
        "saying what it is, and Headwater finds out.",
    ),
    "no content": Words(
        "no text",
        "This page has no text to read",
        "Pages that scripts fill in a browser look empty to Headwater. Look for a feed of the "
        "site.",
        "It names no feed either. Pages that scripts put together look empty to Headwater: look "
        "for a feed, or for another page with the text in it.",
    ),
    "too expensive": Words(
        "too costly to read",
        "This cannot be read in reasonable time",
        "Look for another feed of the site, or tell its owner.",
        "The document is built so oddly that reading it takes too long.",
    ),
    "local": Words(
        "this machine could not ask",
        "This machine could not ask",
        "That is not the source's fault. Check the network of the machine that Headwater runs on.",
        "It seems that the machine Headwater runs on has no connection. Try again later, or add "
        "it now: it is polled once the connection is back.",
    ),
}
_ON_X: dict[str, Words] = {
    "401": Words(
        "key refused",
        "X refuses your key",
        "It is not valid any more. Store a working one under Accounts.",
        "It is not valid any more. Store a working one under Accounts, then preview again.",
    ),
    "403": Words(
        "not shown to this key",
        "X does not show this to your key",
        "The account is protected or suspended, or the key has not the right to read it.",
        "The account is protected or suspended, or the key has not the right to read it.",
    ),
    "404": Words(
        "nobody of that name",
        "X knows nobody of that name",
        "The account may have been renamed or suspended. Put its new name into the settings "
        "below, or delete the source.",
        "Look for a typing mistake. Accounts that were renamed or suspended are not found either.",
    ),
}


def words_for(kind: str | None, *, on_x: bool = False) -> Words:
    """What is to be said of a kind of failure."""
    if kind is not None and is_server_trouble(kind):
        return _SERVER_TROUBLE
    known = _KINDS | _ON_X if on_x else _KINDS
    return known.get(kind or "", _UNKNOWN)


def tag_for(kind: str) -> str:
    """A kind of failure in a word or two, with the status where it is one."""
    words = words_for(kind)
    if not kind.isdigit():
        return words.tag
    return f"HTTP {kind}" if words is _UNKNOWN else f"{words.tag} ({kind})"


def outage_for(kind: str) -> str:
    """How an outage of our own shows (O2, O3)."""
    if kind == "DNS":
        return "no name can be looked up"
    return f"hosts that were fine all fail alike: {tag_for(kind)}"


def is_server_trouble(kind: str) -> bool:
    """Whether a kind is a status by which a server says that the fault is its own."""
    return len(kind) == 3 and kind.isdigit() and kind.startswith("5")
