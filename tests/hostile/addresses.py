"""Ways to an address that may not be visited; a witness server there counts connections.

All of them lead to loopback, so that even a guard that fails sends no packet elsewhere.
"""

from tests.hostile.documents import GOOD, good, rss
from tests.hostile.exchange import Exchange, answer, redirect
from tests.hostile.table import Failed, Misbehaviour, Rejected, Stored, row

REFUSED = Failed("address")
ASTRAY = Failed("redirect")

SPELLINGS = {  # of 127.200.0.1, the address of the witness server
    "plain": "127.200.0.1",
    "decimal": "2143813633",
    "hexadecimal": "0x7fc80001",
    "hexadecimal in parts": "0x7f.0xc8.0x0.0x1",
    "octal": "0177.0310.0.01",
    "short": "127.13107201",
    "with a dot behind": "127.200.0.1.",
    "in full-width digits": "１２７.２００.０.１",
    "with ideographic dots": "127。200。0。1",
    "percent-encoded": "%31%32%37.200.0.1",
    "mapped": "[::ffff:127.200.0.1]",
    "mapped in hexadecimal": "[::ffff:7fc8:1]",
}
OTHERS = {  # which reach this machine nevertheless
    "ipv6 loopback": "[::1]",
    "ipv6 loopback, written out": "[0:0:0:0:0:0:0:1]",
    "unspecified": "0.0.0.0",
    "unspecified, short": "0",
    "localhost": "localhost",
    "below localhost": "x.localhost",
    "localhost with a dot behind": "localhost.",
    "mapped loopback": "[::ffff:127.0.0.1]",
    "loopback, short": "127.1",
}


def visited(name: str, host: str) -> Misbehaviour:
    """A source at that address."""
    return row(f"source at an address: {name}", "J2 N3 N4", b"", Rejected(),
               url="http://" + host + ":{port}/feed")  # fmt: skip


def sent_to(name: str, location: str, outcome: Failed = REFUSED) -> Misbehaviour:
    """A redirect to that address."""

    def talk(ex: Exchange) -> bytes:
        port = ex.origin.rpartition(":")[2]
        netloc = ex.origin.partition("//")[2]
        return redirect(location.replace("PORT", port).replace("NETLOC", netloc))

    return row(f"redirect to an address: {name}", "N3 N4 N5", talk, outcome)


def by_another(ex: Exchange) -> bytes:
    """A redirect over an allowed host to a refused one."""
    return redirect(f"http://{ex.refused}/") if ex.is_elsewhere else redirect(f"{ex.other}/on")


ROWS = (
    *(visited(name, host) for name, host in (SPELLINGS | OTHERS).items()),
    *(sent_to(name, f"http://{host}:PORT/") for name, host in (SPELLINGS | OTHERS).items()),
    sent_to("behind user-info", "http://NETLOC@127.200.0.1:PORT/"),
    sent_to("behind user-info with a password", "http://good.example:80@127.200.0.1:PORT/"),
    sent_to("behind a fragment", "http://127.200.0.1:PORT#@NETLOC/"),
    sent_to("behind a backslash", "http://127.200.0.1:PORT\\@NETLOC/", ASTRAY),
    sent_to("without a scheme", "//127.200.0.1:PORT/"),
    sent_to("by https", "https://127.200.0.1:PORT/"),
    sent_to("of five parts", "http://127.200.0.1.1:PORT/", ASTRAY),
    sent_to("of a part too large", "http://127.200.0.256:PORT/", ASTRAY),
    row("redirect to an address over another host", "N3 N5", by_another, REFUSED, elsewhere=True),
    row("source at an address, spelled oddly but allowed", "N4 P1", answer(rss(good())),
        Stored(1, (GOOD,)), url="http://{decimal}:{port}/feed"),
    row("source with a dot behind its address", "N4 P1", answer(rss(good())),
        Stored(1, (GOOD,)), url="http://{host}.:{port}/feed"),
    row("source at a name that does not exist", "F1 O2", b"", Failed("DNS", "permanent"),
        url="http://no.such.host.invalid/feed"),
)  # fmt: skip
