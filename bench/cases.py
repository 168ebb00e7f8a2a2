"""The benchmark cases: what is polled, and the programs that are compared."""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench import external_tools
from bench.feeds import ENTRIES

PYTHON = sys.executable
READER_WORKERS = 20
_PER_URL = 100
_SHARING = 51  # sources of the same URL that share a request at most
_BLOCK = 'drought OR "flood warning" OR author:nobody'  # matches no entry


@dataclass(frozen=True)
class Program:
    """One program of a case, in a separate process."""

    name: str
    module: str
    feeds: int
    options: Mapping[str, object] = field(default_factory=dict)
    database: str | None = None  # `sqlite` or `postgres`
    peer: bool = False  # runs in the environment of the other programs
    both_cores: bool = False
    network: bool = True
    exact: bool = True  # does as many polls as there are feeds
    python: str = PYTHON
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def per_url(self) -> int:
        """How many sources have the same URL."""
        return int(str(self.options.get("per_url", 1)))

    @property
    def requests_per_url(self) -> int:
        """How many requests these sources share."""
        return -(-self.per_url // _SHARING)


@dataclass(frozen=True)
class Quoted:
    """A figure that was measured elsewhere."""

    name: str
    cpu_ms: float
    rate: float


@dataclass(frozen=True)
class Case:
    """What is polled, how often, and by which programs."""

    name: str
    title: str
    # of feed: `still` gives 304, `bytes` the same again, `new` changes every round, `paged` too and
    # its entries have pages
    kind: str
    programs: Sequence[Program]
    rounds: int
    tls: str | None = None
    quoted: Sequence[Quoted] = ()
    fresh: bool = False  # every round begins with an empty database

    @property
    def publishes(self) -> bool:
        """Whether the feeds have new entries in every round."""
        return self.kind in ("new", "paged")

    def expected_responses(self, program: Program, number: int) -> Counter[str]:
        """The number of responses that the server must have counted in a round."""
        if not program.network:
            return Counter()
        conditional = self.kind == "still" and number > 0 and not self.fresh
        requests = program.feeds // program.per_url * program.requests_per_url
        if program.options.get("full_text"):
            requests += program.feeds * ENTRIES
        return Counter({"304" if conditional else "200": requests})

    def expected_posts(self, program: Program, rounds: int) -> int:
        """The expected number of posts after this many rounds."""
        times = rounds if self.publishes else 1
        return program.feeds * ENTRIES * times


def _ours(feeds: int, *, both: bool = True) -> list[Program]:
    """The engine alone, driven by the benchmark."""
    path = "bench.programs.headwater_polls"
    programs = [Program("ours, SQLite", path, feeds, database="sqlite")]
    if both:
        programs.append(Program("ours, PostgreSQL", path, feeds, database="postgres"))
    return programs


def _running(feeds: int) -> list[Program]:
    """What people run, as processes of their own."""
    path = "bench.programs.running_headwater"
    serve, worker, poll = ({"program": name} for name in ("serve", "worker", "poll"))
    return [
        Program("`serve`, SQLite", path, feeds, serve, database="sqlite"),
        Program("`worker`, PostgreSQL", path, feeds, worker, database="postgres"),
        Program("`poll --all`, SQLite", path, feeds, poll, database="sqlite"),
    ]


def _followed(feeds: int) -> list[Program]:
    """The same until the new posts are searchable and grouped into stories."""
    path, options = "bench.programs.running_headwater", {"program": "serve", "followed": True}
    name = "`serve`, SQLite, until posts are searchable and in stories"
    return [Program(name, path, feeds, options, database="sqlite")]


def _serve(name: str, feeds: int, **options: object) -> Program:
    """`serve` with something switched on."""
    path = "bench.programs.running_headwater"
    return Program(
        f"`serve`, SQLite, {name}", path, feeds, {"program": "serve", **options}, database="sqlite"
    )


def _shared(feeds: int) -> Program:
    """Sources of 100 podcasts, say, that have the same URLs: two requests for 100 of them."""
    whole = max(feeds // _PER_URL, 1) * _PER_URL
    return _serve(f"{_PER_URL} sources per URL", whole, per_url=_PER_URL)


def _loops(feeds: int) -> list[Program]:
    loops, peers = "bench.programs.request_loops", "bench.programs.other_programs"
    return [
        Program("our client, bare loop", loops, feeds, {"program": "client"}),
        Program("aiohttp, bare loop", loops, feeds, {"program": "aiohttp"}),
        Program("wreq, bare loop", peers, feeds, {"program": "wreq"}, peer=True),
    ]


def _reader(feeds: int) -> Program:
    options = {"program": "reader", "workers": READER_WORKERS}
    return Program("reader", "bench.programs.other_programs", feeds, options, peer=True)


def _wrk() -> list[Program]:
    program = external_tools.program("wrk")
    if program is None:
        return []
    return [Program("wrk", "bench.programs.wrk", 1, {"program": program}, exact=False)]


def _still(scale: Callable[[int], int]) -> Case:
    many = scale(2000)
    programs = [
        *_running(many), _shared(many), *_ours(many), *_loops(many), _reader(scale(150)), *_wrk(),
    ]  # fmt: skip
    quoted = (
        Quoted("yarr (quoted)", 0.29, 3188),
        Quoted("Miniflux + PostgreSQL (quoted)", 2.1, 632),
        Quoted("reader 3.26 (quoted)", 2.4, 369),
    )
    return Case("304", "no change: 304", "still", programs, 5, quoted=quoted)


def _same_bytes(scale: Callable[[int], int]) -> Case:
    many = scale(1000)
    programs = [*_ours(many), *_loops(many), _reader(scale(40))]
    return Case("bytes", "no change: 200, same bytes", "bytes", programs, 5)


def _tls(scale: Callable[[int], int]) -> Case:
    many = scale(600)
    programs = [*_running(many), *_ours(many), *_loops(many), _reader(scale(60))]
    return Case("tls", "no change: 304 over TLS 1.3", "still", programs, 5, tls="1.3")


def _tls12(scale: Callable[[int], int]) -> Case:
    many = scale(600)
    programs = [*_ours(many, both=False), *_loops(many)]
    return Case("tls12", "no change: 304 over TLS 1.2", "still", programs, 5, tls="1.2")


def _new(scale: Callable[[int], int]) -> Case:
    many, more = scale(600), scale(1500)  # a round on two cores needs a minimum duration
    path, reading = "bench.programs.headwater_polls", "bench.programs.document_parsing"
    insert = {"program": "insert"}
    programs = [
        *_running(many),
        *_followed(many),
        _serve("with filters", many, block=_BLOCK),
        _shared(many),
        *_ours(many),
        Program("ours, SQLite, two cores", path, more, database="sqlite", both_cores=True),
        Program("ours, PostgreSQL, two cores", path, more, database="postgres", both_cores=True),
        Program("parse + text + insert, bare loop, SQLite", reading, many, insert,
            database="sqlite", network=False),
        Program("parse + text + insert, bare loop, PostgreSQL", reading, many, insert,
            database="postgres", network=False),
        _reader(scale(60)),
    ]  # fmt: skip
    quoted = (
        Quoted("yarr (quoted; lost 2–3 %)", 12, 68),
        Quoted("Miniflux + PostgreSQL (quoted)", 61, 22),
        Quoted("reader 3.26 (quoted)", 45, 21),
    )
    return Case("new", "twenty new entries", "new", programs, 7, quoted=quoted)


def _webhooks(scale: Callable[[int], int]) -> Case:
    many, two = scale(600), {"webhooks": 2}
    path = "bench.programs.headwater_polls"
    programs = [
        *_ours(many),
        Program("ours, SQLite, two webhooks", path, many, two, database="sqlite"),
        Program("ours, PostgreSQL, two webhooks", path, many, two, database="postgres"),
    ]
    return Case("webhooks", "twenty new entries, with messages", "new", programs, 7)


def _full_text(scale: Callable[[int], int]) -> Case:
    few = scale(30)  # each with twenty pages
    programs = [_serve("with full text", few, full_text=True), _serve("without", few)]
    return Case("fulltext", "twenty new entries with their pages", "paged", programs, 5)


def _parse(scale: Callable[[int], int]) -> Case:
    reading = "bench.programs.document_parsing"
    programs = [
        Program(
            "our parser, text included", reading, scale(400), {"program": "parse"}, network=False
        ),
        Program("feedparser", reading, scale(40), {"program": "feedparser"}, network=False),
    ]
    return Case("parse", "parsing twenty entries, nothing else", "new", programs, 5)


def _import(scale: Callable[[int], int]) -> Case:
    path, reader = "bench.programs.opml_import", _reader(scale(200))
    options = {**reader.options, "program": "reader import"}
    programs = [
        Program("ours, SQLite", path, scale(10_000), database="sqlite"),
        Program("ours, PostgreSQL", path, scale(2500), database="postgres"),
        Program("reader", reader.module, reader.feeds, options, peer=True),
    ]
    title = "list of feeds imported and first-polled, per feed"
    return Case("import", title, "new", programs, 2, fresh=True)


MAKERS: Mapping[str, Callable[[Callable[[int], int]], Case]] = {
    "304": _still,
    "bytes": _same_bytes,
    "tls": _tls,
    "tls12": _tls12,
    "new": _new,
    "webhooks": _webhooks,
    "fulltext": _full_text,
    "parse": _parse,
    "import": _import,
}
