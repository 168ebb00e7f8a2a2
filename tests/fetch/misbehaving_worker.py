"""A parse worker with test tasks: the document says how the worker process misbehaves."""

import os
import signal
import sys
from pathlib import Path

from lxml import etree

from headwater.errors import NotAFeed
from headwater.fetch.feed.feed_entries import Feed
from headwater.fetch.pool.worker_main import serve
from headwater.model import Entry

MEGABYTE = 1 << 20


def obey(data: bytes, *, content_type: str | None, url: str, max_entries: int = 0) -> Feed:
    order, _, rest = data.decode().strip().partition(" ")
    return ORDERS[order](rest)


def echo(text: str) -> Feed:
    entry = Entry(
        id=str(os.getpid()), title="t", url=None, published_at=None, author=None, body=text
    )
    return Feed(entries=(entry,), complete=True, title=None)


def hang(path: str) -> Feed:
    Path(path).touch()  # the test waits for this
    while True:
        pass


def hog(_: str) -> Feed:
    hoard = []
    while True:
        hoard.append(bytearray(16 * MEGABYTE))


def hog_in_c(_: str) -> Feed:
    document = b"<rss>" + b"<i><t>a</t></i>" * 4_000_000 + b"</rss>"
    try:
        etree.fromstring(document, etree.XMLParser(recover=True))
    except etree.XMLSyntaxError as error:
        raise NotAFeed(f"not XML: {error}") from error  # the typical error when memory is exhausted
    return echo("")


def grow(megabytes: str) -> Feed:
    hoard = bytearray(int(megabytes) * MEGABYTE)
    return echo(str(len(hoard)))


def die(name: str) -> Feed:
    os.kill(os.getpid(), int(name) if name.isdigit() else signal.Signals[name])
    return echo("")


def leave(code: str) -> Feed:
    os._exit(int(code))


def raise_odd(_: str) -> Feed:
    raise RecursionError("too deep\nby far")


def refuse(text: str) -> Feed:
    raise NotAFeed(text)


def print_noise(_: str) -> Feed:
    sys.stdout.write("noise\n")
    sys.stdout.flush()
    os.write(1, b"more noise")
    return echo("quiet")


def flood(megabytes: str) -> Feed:
    entry = Entry(None, "t", None, None, None, "x" * MEGABYTE)
    return Feed(entries=(entry,) * int(megabytes), complete=True, title=None)


ORDERS = {
    "echo": echo,
    "hang": hang,
    "hog": hog,
    "hog_in_c": hog_in_c,
    "grow": grow,
    "die": die,
    "leave": leave,
    "raise_odd": raise_odd,
    "refuse": refuse,
    "print_noise": print_noise,
    "flood": flood,
}

if __name__ == "__main__":
    serve({"feed": obey, "page": obey}, memory_mb=int(sys.argv[1]))
