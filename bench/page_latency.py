"""Duration of each dashboard page over a large database.

    python -m bench.page_latency [SOURCES] [POSTS]

A real `headwater serve` with a paused scheduler serves one request after another. Every page is
requested once per round, so that none profits from its own warm caches.
"""

import contextlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import aiohttp
import uvloop

from bench import large_database
from bench.api_latency import serving
from bench.large_database import BIG_HOST, LARGE, MIDDLING, Large, small
from headwater.api.schemas.pagination import cursor_for
from headwater.model import Source, SourceType
from headwater.rules.health import health_of
from headwater.rules.politeness import X_HOST
from headwater.store.row_mapping import to_ms
from headwater.store.source_pages import INDEXED_ORDERS, Position, SourceOrder
from headwater.web.source_list_query import STATE_LABELS, read_list_query

POLLS_PER_SOURCE = 3
ROUNDS = 25
FOLLOWED = 10  # times to the next page
LIMIT_MS, SHARE = 200.0, 0.95  # of the requests must be within the limit
_NEXT = re.compile(r'href="([^"]+)" rel="next"')
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Page:
    """A page, the user who requests it, and its results."""

    path: str
    token: str
    form: Mapping[str, str] | None = None  # sent with it
    status: int = 200
    milliseconds: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0  # CPU seconds of the server for all of them
    size: int = 0

    def at(self, share: float) -> float:
        ordered = sorted(self.milliseconds)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


async def measure(sources: int, posts: int, folder: Path) -> None:
    """Fill a database, serve it, request all pages, and print one table."""
    path, started = folder / "bench.db", time.perf_counter()
    there = await large_database.fill(path, sources, posts, POLLS_PER_SOURCE * sources)
    print(f"filled in {time.perf_counter() - started:.0f} s: {path.stat().st_size >> 20:,} MiB")
    await measure_pages(path, there)


async def measure_pages(path: Path, there: Large) -> None:
    """Serve a filled database, request every page, and print one table."""
    async with (
        serving(f"sqlite:///{path}", path.parent) as served,
        aiohttp.ClientSession(served.base, headers=bearer(there.admin)) as session,
    ):
        pages = dict(every_page(there))
        for name, page in [*pages.items()]:
            if page.path.endswith(("/sources", "/posts", "/articles", "/hosts")):
                pages[f"{name}, {FOLLOWED} pages on"] = await followed(session, page)
        for page in pages.values():
            await request_page(session, page)  # once to warm up
            page.milliseconds.clear()
        started, machine, own = time.perf_counter(), machine_seconds(), time.process_time()
        for _ in range(ROUNDS):
            for page in pages.values():
                cpu = cpu_seconds(served.pid)
                await request_page(session, page)
                page.cpu_seconds += cpu_seconds(served.pid) - cpu
        spent, own = time.perf_counter() - started, time.process_time() - own
        machine = machine_seconds() - machine
    show(pages)
    cpu = sum(page.cpu_seconds for page in pages.values())
    print(f"the server had {cpu / spent:.2f} cores; "
          f"others took {max(machine - cpu - own, 0) / spent:.2f} of this machine's")  # fmt: skip
    print(verdict(pages))


def every_page(there: Large) -> Iterator[tuple[str, Page]]:
    """All pages by name, with many variants of those that many sources or posts may slow down."""
    admin, small_owner = there.admin, there.small_owner
    for who, token in (("", admin), (" of an owner", there.large_owner), (" of few", small_owner)):
        yield f"overview{who}", Page("/", token)
        yield f"hosts{who}", Page("/hosts", token)
    yield "overview of a day", Page("/?span=day", admin)
    yield from source_lists(there)
    yield from single_sources(there)
    yield from hosts(there)
    yield from content(there)
    yield "accounts", Page("/accounts", admin)
    yield "accounts of a user", Page(f"/accounts?user={small(7)}", admin)
    yield "own account", Page("/accounts", small_owner)
    yield "login", Page("/login", admin)
    yield "no such page", Page("/nothing", admin, status=404)


def source_lists(there: Large) -> Iterator[tuple[str, Page]]:
    """A podcast with most of the sources, one with as many as are sorted, and a small one."""
    admin = there.admin
    path = f"/podcasts/{LARGE}"
    yield "sources", Page(f"{path}/sources", admin)
    for query in queries(there):
        yield f"sources {named(query)}", Page(f"{path}/sources?{urlencode(query)}", admin)
    yield from last_pages(there)
    for query in ({"q": "no-such-thing"}, {"health": "new"}, {}):
        form = {"action": "delete", "scope": "matching"}
        asked = Page(f"{path}/sources?{urlencode(query)}", there.large_owner, form)
        yield f"question: delete all {named(query)}", asked
    yield "adding", Page(f"{path}/add", admin)
    yield "importing", Page(f"{path}/import", admin)
    middling = f"/podcasts/{MIDDLING}/sources"
    for order in SourceOrder:
        yield f"fewer sources sort={order}", Page(f"{middling}?sort={order}", there.middling_owner)
    for query in ({"health": "new"}, {"q": "no-such-thing"}, {"q": "żółw", "sort": "name"}):
        page = Page(f"{middling}?{urlencode(query)}", there.middling_owner)
        yield f"fewer sources {named(query)}", page
    yield "few sources", Page(f"/podcasts/{small(0)}/sources", there.small_owner)


def queries(there: Large) -> Iterator[dict[str, str]]:
    """Queries of the source list of a podcast, many with rare results."""
    yield from ({"sort": order.value} for order in SourceOrder)
    yield from ({"health": state} for state in STATE_LABELS)
    yield from ({"health": state, "sort": "url"} for state in STATE_LABELS)
    yield from ({"type": type_.value} for type_ in SourceType)
    rare = next(s for s in there.sources if s.podcast_id == LARGE and s.label)
    texts = ("river", f"/{rare.url.rpartition('/')[2]}", "no-such-thing", "żółw", "nił")
    yield from ({"q": text} for text in texts)
    yield from ({"q": text, "sort": "url"} for text in texts[1:])
    yield {"q": "no-such-thing", "sort": "oldest"}
    yield {"q": "no-such-thing", "health": "failing"}
    yield {"type": "twitter", "health": "failing", "sort": "oldest"}
    yield from ({"host": host} for host in (BIG_HOST, "host-77.example", "nowhere.example"))
    yield {"host": BIG_HOST, "sort": "url"}
    yield {"host": BIG_HOST, "health": "new"}
    yield {"host": BIG_HOST, "q": "no-such-thing"}


def last_pages(there: Large) -> Iterator[tuple[str, Page]]:
    """The last pages of long lists."""
    path = f"/podcasts/{LARGE}/sources"
    own = [source for source in there.sources if source.podcast_id == LARGE]
    for order in INDEXED_ORDERS:
        ordered = sorted(own, key=lambda source: place_in(source, order))
        last = ordered[20] if order is SourceOrder.NEWEST else ordered[-20]
        url = read_list_query(path, {"sort": order.value}).page_at(place_in(last, order), order)
        yield f"sources sort={order}, last page", Page(url or "", there.admin)


def place_in(source: Source, order: SourceOrder) -> Position:
    return (source.url if order is SourceOrder.URL else to_ms(source.created_at)), source.id


def single_sources(there: Large) -> Iterator[tuple[str, Page]]:
    """One source in each health, and one with many posts and polls."""
    own = [source for source in there.sources if source.podcast_id == LARGE]
    chosen = {health_of(source).value: source for source in own}
    chosen["on the big host"] = next(source for source in own if source.host == BIG_HOST)
    chosen["on X"] = next(source for source in own if source.type is SourceType.TWITTER)
    for name, source in {**chosen, "busy": there.busy}.items():
        yield f"source {name}", Page(f"/podcasts/{LARGE}/sources/{source.id}", there.admin)


def hosts(there: Large) -> Iterator[tuple[str, Page]]:
    """A host with a tenth of all sources, viewed by different users, and others."""
    behind = urlencode({"cursor": cursor_for(("host-99.example",))})
    yield "hosts, last page", Page(f"/hosts?{behind}", there.admin)
    yield "hosts of an owner, last page", Page(f"/hosts?{behind}", there.large_owner)
    yield "unknown host", Page("/hosts?host=nowhere.example", there.admin)
    yield "host by name", Page(f"/hosts?host={BIG_HOST}", there.admin, status=303)
    yield "big host", Page(f"/hosts/{BIG_HOST}", there.admin)
    yield "big host of an owner", Page(f"/hosts/{BIG_HOST}", there.large_owner)
    yield "big host of few", Page(f"/hosts/{BIG_HOST}", there.small_owner)
    yield "host of X", Page(f"/hosts/{X_HOST}", there.admin)
    yield "another host", Page("/hosts/host-77.example", there.admin)


def content(there: Large) -> Iterator[tuple[str, Page]]:
    """Posts and articles; one podcast has no processed article."""
    path, few = f"/podcasts/{LARGE}", f"/podcasts/{small(0)}"
    oldest = urlencode({"cursor": cursor_for(("01900000-0000-8000-8000-000000000000",))})
    yield "posts", Page(f"{path}/posts", there.admin)
    yield "posts, behind the last", Page(f"{path}/posts?{oldest}", there.admin)
    yield "posts of the busy source", Page(f"{path}/posts?source={there.busy.id}", there.admin)
    yield "posts of a small podcast", Page(f"{few}/posts", there.small_owner)
    yield "articles", Page(f"{path}/articles", there.admin)
    for shown in ("processed", "all"):
        yield f"articles show={shown}", Page(f"{path}/articles?show={shown}", there.admin)
    none = f"/podcasts/{MIDDLING}/articles?show=processed"
    yield "articles, none processed", Page(none, there.middling_owner)
    yield "articles of a small podcast", Page(f"{few}/articles", there.small_owner)


async def followed(session: aiohttp.ClientSession, page: Page) -> Page:
    """A page some pages further, or the last one."""
    path = page.path
    for _ in range(FOLLOWED):
        async with session.get(path, headers=bearer(page.token)) as answer:
            found = _NEXT.search(await answer.text())
        if found is None:
            break
        path = unescape(found[1])
    return Page(path, page.token)


async def request_page(session: aiohttp.ClientSession, page: Page) -> None:
    method, headers = "GET" if page.form is None else "POST", bearer(page.token)
    started = time.perf_counter()
    async with session.request(
        method, page.path, data=page.form, headers=headers, allow_redirects=False
    ) as answer:
        body = await answer.read()
    page.milliseconds.append((time.perf_counter() - started) * 1000)
    assert answer.status == page.status, (page.path, answer.status, body[:500])
    page.size = len(body)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def named(query: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in query.items())


def cpu_seconds(pid: int) -> float:
    """CPU time of a process, in all of its threads."""
    found = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # ended just now
            found += int((thread / "schedstat").read_text().split()[0])
    return found / 1e9


def machine_seconds() -> float:
    """CPU time used on this machine, including the hypervisor's."""
    user, nice, system, _, _, *interrupts_and_stolen = map(
        int, Path("/proc/stat").read_text().split()[1:9]
    )
    return (user + nice + system + sum(interrupts_and_stolen)) / _TICKS


def show(pages: Mapping[str, Page]) -> None:
    print(f"{'':48}{'p50':>8}{'p95':>8}{'max':>8}{'cpu':>8}  ms{'bytes':>10}")
    for name, page in pages.items():
        cells = [page.at(share) for share in (0.5, SHARE, 1)]
        cells.append(page.cpu_seconds * 1000 / len(page.milliseconds))
        slow = "  SLOW" if page.at(SHARE) >= LIMIT_MS else ""
        print(f"{name:48}{''.join(f'{cell:8.1f}' for cell in cells)}    {page.size:10,}{slow}")


def verdict(pages: Mapping[str, Page]) -> str:
    slow = sum(page.at(SHARE) >= LIMIT_MS for page in pages.values())
    worst = max(page.at(SHARE) for page in pages.values())
    words = f"{slow} of {len(pages)} are NOT" if slow else f"all {len(pages)} are"
    return f"p95 of the slowest page: {worst:.1f} ms; {words} under {LIMIT_MS:.0f} ms"


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> None:
    """Measure and print one table."""
    sources, posts = (*map(int, arguments), *(100_000, 1_000_000)[len(arguments) :])
    print(f"{sources:,} sources and {posts:,} posts, SQLite; every page {ROUNDS} times, one after "
          f"another; {os.cpu_count()} cores")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        uvloop.run(measure(sources, posts, Path(folder)))


if __name__ == "__main__":
    main()
