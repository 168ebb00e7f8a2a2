"""The cases: what is polled, and the ways it is done that are held against each other."""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench import tools
from bench.feeds import ENTRIES

PYTHON = sys.executable
READER_WORKERS = 20


@dataclass(frozen=True)
class Way:
    """One way to do a case's work, in a process of its own."""

    name: str
    module: str
    feeds: int
    options: Mapping[str, object] = field(default_factory=dict)
    database: str | None = None  # `sqlite` or `postgres`
    peer: bool = False  # runs in the environment of the peers
    both_cores: bool = False
    network: bool = True
    exact: bool = True  # does as many polls as there are feeds
    python: str = PYTHON
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Quoted:
    """A figure that was measured elsewhere."""

    name: str
    cpu_ms: float
    rate: float


@dataclass(frozen=True)
class Case:
    """What is polled, how often, and by whom."""

    name: str
    title: str
    kind: str  # of feed: `still` answers 304, `bytes` the same again, `new` changes every round
    ways: Sequence[Way]
    rounds: int
    tls: str | None = None
    quoted: Sequence[Quoted] = ()
    fresh: bool = False  # every round begins with an empty database

    def expected_answers(self, way: Way, number: int) -> Counter[str]:
        """What the server must have counted in a round."""
        if not way.network:
            return Counter()
        conditional = self.kind == "still" and number > 0 and not self.fresh
        return Counter({"304" if conditional else "200": way.feeds})

    def expected_posts(self, way: Way, rounds: int) -> int:
        """How many posts there must be after so many rounds."""
        times = rounds if self.kind == "new" else 1
        return way.feeds * ENTRIES * times


def _ours(feeds: int, *, both: bool = True) -> list[Way]:
    path = "bench.subjects.ours"
    ways = [Way("ours, SQLite", path, feeds, database="sqlite")]
    if both:
        ways.append(Way("ours, PostgreSQL", path, feeds, database="postgres"))
    return ways


def _loops(feeds: int) -> list[Way]:
    loops, peers = "bench.subjects.loops", "bench.subjects.peers"
    return [
        Way("our client, bare loop", loops, feeds, {"way": "client"}),
        Way("aiohttp, bare loop", loops, feeds, {"way": "aiohttp"}),
        Way("wreq, bare loop", peers, feeds, {"way": "wreq"}, peer=True),
    ]


def _reader(feeds: int) -> Way:
    options = {"way": "reader", "workers": READER_WORKERS}
    return Way("reader", "bench.subjects.peers", feeds, options, peer=True)


def _wrk() -> list[Way]:
    program = tools.program("wrk")
    if program is None:
        return []
    return [Way("wrk", "bench.subjects.wrk", 1, {"program": program}, exact=False)]


def _still(scale: Callable[[int], int]) -> Case:
    many = scale(2000)
    ways = [*_ours(many), *_loops(many), _reader(scale(150)), *_wrk()]
    quoted = (
        Quoted("yarr (quoted)", 0.29, 3188),
        Quoted("Miniflux + PostgreSQL (quoted)", 2.1, 632),
        Quoted("reader 3.26 (quoted)", 2.4, 369),
    )
    return Case("304", "no change: 304", "still", ways, 5, quoted=quoted)


def _same_bytes(scale: Callable[[int], int]) -> Case:
    many = scale(1000)
    ways = [*_ours(many), *_loops(many), _reader(scale(40))]
    return Case("bytes", "no change: 200, same bytes", "bytes", ways, 5)


def _tls(scale: Callable[[int], int]) -> Case:
    many = scale(600)
    ways = [*_ours(many), *_loops(many), _reader(scale(60))]
    return Case("tls", "no change: 304 over TLS 1.3", "still", ways, 5, tls="1.3")


def _tls12(scale: Callable[[int], int]) -> Case:
    many = scale(600)
    ways = [*_ours(many, both=False), *_loops(many)]
    return Case("tls12", "no change: 304 over TLS 1.2", "still", ways, 5, tls="1.2")


def _new(scale: Callable[[int], int]) -> Case:
    many, more = scale(600), scale(1500)  # a round on two cores needs its time to get going
    path, reading = "bench.subjects.ours", "bench.subjects.reading"
    ways = [
        *_ours(many),
        Way("ours, SQLite, two cores", path, more, database="sqlite", both_cores=True),
        Way("ours, PostgreSQL, two cores", path, more, database="postgres", both_cores=True),
        Way("parse + text + insert, bare loop, SQLite", reading, many, {"way": "insert"},
            database="sqlite", network=False),
        Way("parse + text + insert, bare loop, PostgreSQL", reading, many, {"way": "insert"},
            database="postgres", network=False),
        _reader(scale(60)),
    ]  # fmt: skip
    quoted = (
        Quoted("yarr (quoted; lost 2–3 %)", 12, 68),
        Quoted("Miniflux + PostgreSQL (quoted)", 61, 22),
        Quoted("reader 3.26 (quoted)", 45, 21),
    )
    return Case("new", "twenty new entries", "new", ways, 7, quoted=quoted)


def _parse(scale: Callable[[int], int]) -> Case:
    reading = "bench.subjects.reading"
    ways = [
        Way("our parser, text included", reading, scale(400), {"way": "parse"}, network=False),
        Way("feedparser", reading, scale(40), {"way": "feedparser"}, network=False),
    ]
    return Case("parse", "parsing twenty entries, nothing else", "new", ways, 5)


def _import(scale: Callable[[int], int]) -> Case:
    path, reader = "bench.subjects.importing", _reader(scale(200))
    options = {**reader.options, "way": "reader import"}
    ways = [
        Way("ours, SQLite", path, scale(10_000), database="sqlite"),
        Way("ours, PostgreSQL", path, scale(2500), database="postgres"),
        Way("reader", reader.module, reader.feeds, options, peer=True),
    ]
    title = "list of feeds imported and first-polled, per feed"
    return Case("import", title, "new", ways, 2, fresh=True)


MAKERS: Mapping[str, Callable[[Callable[[int], int]], Case]] = {
    "304": _still,
    "bytes": _same_bytes,
    "tls": _tls,
    "tls12": _tls12,
    "new": _new,
    "parse": _parse,
    "import": _import,
}
