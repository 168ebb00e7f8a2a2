"""The whole table, and the address of each host."""

from ipaddress import IPv4Address
from itertools import chain, cycle, islice

from tests.hostile import (
    addresses,
    compression,
    dates,
    echoed_secrets,
    json_feeds,
    markup,
    pages,
    redirects,
    response_heads,
    sizes,
    texts,
    tls,
    transport,
)
from tests.hostile.table import Misbehaviour

TOPICS = {
    "transport": transport.ROWS,
    "tls": tls.ROWS,
    "heads": response_heads.ROWS,
    "redirects": redirects.ROWS,
    "compression": compression.ROWS,
    "markup": markup.ROWS,
    "json": json_feeds.ROWS,
    "pages": pages.ROWS,
    "texts": texts.ROWS,
    "dates": dates.ROWS,
    "sizes": sizes.ROWS,
    "echoes": echoed_secrets.ROWS,
    "addresses": addresses.ROWS,
}
ROWS: tuple[Misbehaviour, ...] = tuple(chain.from_iterable(TOPICS.values()))
ALLOWED = "127.16.0.0/15"  # the networks that the service may visit
HEALTHY = "127.17.255.1"
FLOOD = tuple(f"127.17.200.{n}" for n in range(1, 65))  # all send as much as they may
# what they send: first the largest once parsed, then the most expensive to parse
_COSTLY = (
    "2 million elements and texts in an entry",
    "json of 800,000 numbers",
    "2 million attributes",
)
_LONG = "9 MB of words, one character wide"
_NAMED = {row.name: row for row in ROWS}
_SENT = ("100,000 items", *[_LONG] * 6, *islice(cycle(_COSTLY), len(FLOOD) - 7))
FLOOD_ROWS = tuple(_NAMED[name] for name in _SENT)
CONTROL = "127.18.0.1"  # where the web reports what it recorded
WITNESSES = ("127.200.0.1", "127.0.0.1", "::1")


def address(index: int) -> str:
    """The host of a row, by its position in the table."""
    return str(IPv4Address("127.16.0.1") + index)


def second_address(index: int) -> str:
    """The second host of a row."""
    return str(IPv4Address("127.17.0.1") + index)


def url(index: int, port: int) -> str:
    """The URL of a row's source."""
    host = address(index)
    netloc = f"{host}:{port}"
    return ROWS[index].url.format(
        origin=f"http://{netloc}",
        secure=f"https://{netloc}",
        netloc=netloc,
        host=host,
        port=port,
        decimal=int(IPv4Address(host)),
        refused=f"{WITNESSES[0]}:{port}",
    )
