"""Search in many posts: time of the first page, size of the index, CPU of indexing (B3).

    python -m bench.search [POSTS] [sqlite|postgres]

Stores posts of synthetic words, whose frequencies follow Zipf's law, and indexes them. The first
posts are indexed by the follower, which tells the CPU per post; the others are written to the index
directly.

Each query is run three times and only its fastest run counts, as other processes disturb the rest:
"p95" is the 95th percentile of the fastest runs of the queries of a kind, not of all runs. CPU is
that of the run with the least: of this process and of the processes of PostgreSQL that serve it.
The line `all` has the queries of all kinds. A database that was filled by an earlier version lacks
the words of bursts.
"""

import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from bench import postgres
from headwater.app import App, open_app
from headwater.errors import SearchTooSlow
from headwater.model import FilteredBy, Podcast, Post, Source, SourceType
from headwater.operations.search import search_request
from headwater.rules.admission import content_hash, id_with_seq, timed_id
from headwater.rules.filters import searchable
from headwater.settings import load_settings
from headwater.store import Session, sequence_numbers
from headwater.store.content_filter import EVERYTHING, ContentFilter, Filtered
from headwater.store.key_values import set_value
from headwater.store.row_mapping import row_of_post
from headwater.store.search import SearchRequest
from headwater.store.search_index import CURSOR, IndexEntry, add_entries, entry_of

SOURCES = 200
WORDS = 50_000
WORDS_PER_POST = 150
DISTINCT = 50_000  # texts
FOLLOWED = 5_000  # posts that the follower indexes
BATCH = 1_000
BURSTS = 20  # words that only the newest posts have
POSTS_PER_BURST = 50  # a page; the search looks for one more
HIDDEN_BY = (FilteredBy.SOURCE_BLOCK, FilteredBy.PODCAST_BLOCK, FilteredBy.PODCAST_KEEP)
REPEATS = 3
START = datetime(2026, 1, 1, tzinfo=UTC)
SYLLABLES = "ba de fi go ku la me ni po ru sa te vi zo ka le mi no pa ri".split()
HAN = (
    "的一是了我不人在他有这上们来到时大地为子中你说生国年着就那和要她出也得里后自以会家可下而过"
    "天去能对小多然于心学么之都好看起发当没成只如事把还用第样道想作种开美总从无情己面最女但现前些所同日手又行意动"
)


def vocabulary(rng: Random) -> list[str]:
    """Words, the most frequent one first."""
    made = dict.fromkeys(
        "".join(rng.choices(SYLLABLES, k=rng.randint(2, 5))) for _ in range(3 * WORDS)
    )
    return list(made)[:WORDS]


class Corpus:
    """Posts of a podcast, always the same: some texts, each in many posts."""

    def __init__(self, posts: int) -> None:
        self.rng = Random(1)
        self.words = vocabulary(self.rng)
        self.weights = list(itertools.accumulate(1 / (n + 2) for n in range(len(self.words))))
        self.posts = posts
        self.sources = [
            Source(
                id=f"source-{n:04}", podcast_id="default", created_at=START, type=SourceType.RSS,
                url=f"https://s{n}.example/feed", host=f"s{n}.example",
            )
            for n in range(SOURCES)
        ]  # fmt: skip
        self.texts: list[tuple[Post, IndexEntry]] = []

    def text(self, count: int) -> str:
        """Some words."""
        return " ".join(self.rng.choices(self.words, cum_weights=self.weights, k=count))

    def batch(self, first: int, count: int) -> list[tuple[Post, IndexEntry]]:
        """The posts with the next numbers, over 200 days, and their entries in the index."""
        made = []
        for seq in range(first, first + count):
            if len(self.texts) < DISTINCT:
                self.texts.append(self._new(seq))
            post, entry = self.texts[(seq - 1) % DISTINCT]
            source = self.sources[seq * 7919 % SOURCES]
            at = START + timedelta(days=200) * (seq / self.posts)
            digest = content_hash(f"{seq} {post.title}")
            post = replace(
                post, id=id_with_seq(timed_id(at, source.id, digest), seq), source_id=source.id,
                url=f"{source.url}/{seq}", published_at=at, content_hash=digest, created_at=at,
                seq=seq,
            )  # fmt: skip
            empty = replace(post, title="", body="", author=None)
            own = entry_of("posts", "default", post, searchable(source, empty))
            entry = replace(entry, number=seq, labels=own.labels, url=own.url)
            if self.posts - seq < BURSTS * POSTS_PER_BURST:
                word = burst(seq % BURSTS)
                post = replace(post, body=f"{post.body} {word}")
                entry = replace(entry, text=f"{entry.text} {word}")
            made.append((post, entry))
        return made

    def _new(self, seq: int) -> tuple[Post, IndexEntry]:
        body = self.text(WORDS_PER_POST)
        if seq % 100 == 0:
            body = "".join(self.rng.choices(HAN, k=200))
        source = self.sources[0]
        post = Post(
            "", source.id, self.text(8), body, source.url, START, self.text(2), "", START, seq
        )
        return post, entry_of("posts", source.podcast_id, post, searchable(source, post))


def burst(number: int) -> str:
    """A word that only the newest posts have: a page of them, but not one more."""
    return f"burst{number}"


def row_of(post: Post) -> dict[str, object]:
    """The row of a post; some are hidden by filters, excerpts, or have a score."""
    seq = post.seq or 0
    hidden = seq * 31 % 1000
    return row_of_post(post) | {
        "podcast_id": "default",
        "filtered_by": HIDDEN_BY[hidden % 3] if hidden < 50 else None,
        "score": seq * 17 % 1000 / 100 if seq * 13 % 100 == 0 else None,
        "completeness": "excerpt" if seq * 7 % 20 == 0 else "full",
    }


async def fill(app: App, corpus: Corpus) -> None:
    """Store all posts; print the CPU that indexing takes."""
    await app.store.sources.add_many(corpus.sources)
    await _store(app, corpus.batch(1, FOLLOWED), indexed=False)
    started, begun = time.process_time(), time.monotonic()
    await app.followers.catch_up()
    print(
        f"indexing by the follower: {(time.process_time() - started) / FOLLOWED * 1e6:.0f} µs of "
        f"CPU in this process per post, {(time.monotonic() - begun) / FOLLOWED * 1e6:.0f} elapsed",
        flush=True,
    )
    is_postgres = app.store.database.takes_workers
    if is_postgres:  # as in a restored backup: far faster than adding to the index
        await app.store.database.execute("DROP INDEX search_documents_lexemes")
    for first in range(FOLLOWED + 1, corpus.posts + 1, BATCH):
        await _store(app, corpus.batch(first, min(BATCH, corpus.posts - first + 1)), indexed=True)
        if first // 100_000 != (first + BATCH) // 100_000:
            print(f"{first + BATCH:,} posts", flush=True)
    if is_postgres:
        await app.store.database.execute(
            "CREATE INDEX search_documents_lexemes ON search_documents USING gin (lexemes)"
        )
    await _process_some(app)
    await app.store.database.execute("ANALYZE")


async def _store(app: App, batch: Sequence[tuple[Post, IndexEntry]], *, indexed: bool) -> None:
    def write(session: Session) -> None:
        session.insert_rows("posts", [row_of(post) for post, _ in batch])
        last = batch[-1][1].number
        sequence_numbers.continue_after(session, last)
        if indexed:
            add_entries(session, [entry for _, entry in batch])
            set_value(session, CURSOR, str(last))

    await app.store.database.write(write)


async def _process_some(app: App) -> None:
    """One post in a thousand is in an article, every second of these articles is processed."""

    def write(session: Session) -> None:
        session.execute("""INSERT INTO articles (id, podcast_id, source_id, title, body, url,
                published_at, author, content_hash, created_at, is_processed)
            SELECT 'a' || id, podcast_id, source_id, title, body, url, published_at, author,
                content_hash, created_at, seq % 2000 = 0 FROM posts WHERE seq % 1000 = 0""")
        session.execute("""INSERT INTO post_articles (post_id, article_id)
            SELECT id, 'a' || id FROM posts WHERE seq % 1000 = 0""")

    await app.store.database.write(write)


def queries(corpus: Corpus) -> Iterator[tuple[str, str, ContentFilter, bool]]:
    """The kind of query, the query, the filter, and whether results are ranked."""
    words, rng = corpus.words, Random(2)
    day = START + timedelta(days=100)
    some_days = ContentFilter(since=day, until=day + timedelta(days=3))
    one_source = ContentFilter(source_id=corpus.sources[7].id)
    long_ago = ContentFilter(until=START + timedelta(days=5))
    phrase = corpus.batch(1, 200)
    hidden, shown = ContentFilter(filtered=Filtered.ONLY), ContentFilter(filtered=Filtered.NO)
    scored = ContentFilter(min_score=9.0)
    for n in range(20):
        rare, common, other = words[-1 - n * 40], words[n], words[20 + n]
        middle = words[2000 + n * 50]
        han = "".join(rng.choices(HAN, k=2))
        yield "rare word", rare, EVERYTHING, False
        yield "word in a burst", burst(n % BURSTS), EVERYTHING, False
        yield "common word", common, EVERYTHING, False
        yield "common word, ranked", common, EVERYTHING, True
        yield "two common words", f"{common} {other}", EVERYTHING, False
        yield "two middling words", f"{middle} {words[3000 + n]}", EVERYTHING, False
        yield (
            "phrase of a post",
            f'"{" ".join(phrase[n * 9 + 1][0].body.split()[3:6])}"',
            EVERYTHING,
            False,
        )
        yield "phrase of common words", f'"{common} {other}"', EVERYTHING, False
        yield "prefix", f"{common[:4]}*", EVERYTHING, False
        yield "title:", f"title:{middle}", EVERYTHING, False
        yield "author: and word", f"author:{other} {middle}", EVERYTHING, False
        yield "Chinese", han, EVERYTHING, False
        yield "only exclusions", f"-{common} -{other}", EVERYTHING, False
        yield "OR and exclusion", f"({middle} OR {rare}) -{common}", EVERYTHING, False
        yield "common word, one source", common, one_source, False
        yield "common word, three days", common, some_days, False
        yield "common word, before a date", common, long_ago, False
        yield "rare word, one source", rare, one_source, False
        yield "common word, not filtered", common, shown, False
        yield "common word, filtered", common, hidden, False
        yield "rare word, filtered", rare, hidden, False
        yield "common word, minScore", common, scored, False
        yield "middling word, minScore", middle, scored, False
        yield "common word, is:excerpt", f"{common} is:excerpt", EVERYTHING, False
        yield "common word, is:processed", f"{common} is:processed", EVERYTHING, False


class Times:
    """Elapsed and CPU seconds of each query of a kind, and how many were cancelled."""

    def __init__(self) -> None:
        self.elapsed: list[float] = []
        self.cpu: list[float] = []
        self.found = 0.0
        self.cancelled = 0.0

    def add(self, other: "Times") -> None:
        """Add the queries of another kind."""
        self.elapsed += other.elapsed
        self.cpu += other.cpu
        self.found += other.found
        self.cancelled += other.cancelled

    def show(self, kind: str) -> None:
        """Print them in a line."""
        (p50, p95), (_, cpu95) = _percentiles(self.elapsed), _percentiles(self.cpu)
        print(
            f"{kind:28} p50 {p50 * 1e3:7.1f} ms   p95 {p95 * 1e3:7.1f} ms   CPU p95 "
            f"{cpu95 * 1e3:7.1f} ms   max {max(self.elapsed) * 1e3:7.1f} ms   "
            f"{self.found / len(self.elapsed):5.1f} results   {self.cancelled:.0f} cancelled",
            flush=True,
        )


def _percentiles(times: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(times)
    return ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.95) - (len(ordered) <= 20)]


async def measure(app: App, corpus: Corpus) -> None:
    """Print the times of all kinds of queries."""
    times: dict[str, Times] = {}
    servers = await _servers(app)
    for kind, text, chosen, by_rank in queries(corpus):
        request = search_request(
            Podcast("default", "default", "default", START), text, chosen,
            now=START + timedelta(days=201), limit=50, by_rank=by_rank,
        )  # fmt: skip
        of_kind = times.setdefault(kind, Times())
        rounds = [await _round(app, request, of_kind, servers) for _ in range(REPEATS)]
        of_kind.elapsed.append(min(elapsed for elapsed, _ in rounds))
        of_kind.cpu.append(min(cpu for _, cpu in rounds))
    everything = Times()
    for kind, of_kind in times.items():
        of_kind.show(kind)
        everything.add(of_kind)
    everything.show("all")


async def _round(
    app: App, request: SearchRequest, times: Times, servers: Sequence[int]
) -> tuple[float, float]:
    started, cpu = time.perf_counter(), _cpu_seconds(servers)
    try:
        page = await app.store.search.posts(request)
        times.found += len(page.items) / REPEATS
    except SearchTooSlow:
        times.cancelled += 1 / REPEATS
    return time.perf_counter() - started, _cpu_seconds(servers) - cpu


async def _servers(app: App) -> list[int]:
    """The processes of PostgreSQL that serve this one."""
    if not app.store.database.takes_workers:
        return []
    readers = (app.store.database.fetch("SELECT pg_sleep(0.2)") for _ in range(20))
    await asyncio.gather(*readers)  # all connections are open then
    sql = """SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend'"""
    return [row[0] for row in await app.store.database.fetch(sql)]


def _cpu_seconds(servers: Sequence[int]) -> float:
    of_servers = (Path(f"/proc/{pid}/schedstat").read_text().split()[0] for pid in servers)
    return time.process_time() + sum(map(int, of_servers)) / 1e9


async def sizes(app: App) -> None:
    """Print the size of the index and of the posts."""
    if app.store.database.takes_workers:
        sql = (
            """SELECT pg_total_relation_size('search_documents'), pg_total_relation_size('posts')"""
        )
        await app.store.database.execute("ANALYZE")
    else:
        sql = """SELECT sum(pgsize) FILTER (WHERE name LIKE 'search%'),
            sum(pgsize) FILTER (WHERE name LIKE '%posts%') FROM dbstat"""
    try:
        index, posts = (await app.store.database.fetch(sql))[0]
        print(f"index {index / 1e6:,.0f} MB, posts {posts / 1e6:,.0f} MB", flush=True)
    except Exception as error:
        print(f"sizes: {error}")


async def run(url: str, posts: int) -> None:
    """Fill a database, unless it is filled, and measure."""
    corpus = Corpus(posts)
    settings = load_settings(options={"app.database-url": url}, environ={})
    async with open_app(settings, creates=True) as app:
        if not await app.store.database.fetch("SELECT 1 FROM posts LIMIT 1"):
            await fill(app, corpus)
        await sizes(app)
        await measure(app, Corpus(posts))


def main(posts: str = "1000000", kind: str = "sqlite") -> None:
    """Run on a new database of this kind, or on the database with this URL."""
    with ExitStack() as stack:
        if "://" in kind:
            url = kind
        elif kind == "postgres":
            url = postgres.on_demand(stack)().new_database()
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
            url = f"sqlite:///{Path(folder) / 'search.db'}"
        asyncio.run(run(url, int(posts)))


if __name__ == "__main__":
    main(*sys.argv[1:])
