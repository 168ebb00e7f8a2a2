"""Parsing within limits: whatever a document does to its worker, the next one is parsed."""

import asyncio
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import uvloop

from headwater.clock import SystemClock
from headwater.errors import (
    FetchError,
    LocalFault,
    NoContent,
    NotAFeed,
    SelectorUnmatched,
    TooExpensive,
    UsageError,
)
from headwater.fetch.feed.feed_document import parse_feed
from headwater.fetch.feed.feed_entries import Feed
from headwater.fetch.page.page_document import read_page
from headwater.fetch.pool.parser_pool import ParserPool
from headwater.fetch.pool.worker_process import Job, ParserProcess, WorkerEnded
from headwater.formats.opml import read_opml
from headwater.watch_settings import WatchSettings

URL = "https://example.org/feed?token=hush"
MISBEHAVING_WORKER = (sys.executable, "-P", str(Path(__file__).with_name("misbehaving_worker.py")))


class HandClock:
    """A clock that the test moves."""

    doubt_seconds: float = 0.0

    def __init__(self):
        self._sleepers = []

    def now(self):
        return datetime(2026, 2, 16, 8, tzinfo=UTC)

    def monotonic(self):
        return 0.0

    async def sleep(self, seconds):
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        await sleeper

    def expire_all_timeouts(self):
        for sleeper in self._sleepers:
            if not sleeper.done():
                sleeper.set_result(None)


def odd_parsers(*, clock=None, processes=1, timeout_seconds=10):
    return ParserPool(
        worker=MISBEHAVING_WORKER,
        clock=clock or HandClock(),
        processes=processes,
        timeout_seconds=timeout_seconds,
        inline_bytes=0,
    )


async def order(parsers, text):
    feed = await parsers.feed(text.encode(), content_type=None, url=URL)
    return feed.entries[0]


async def exists(path):
    while not path.exists():
        await asyncio.sleep(0.005)


def is_alive(pid):
    """Whether the process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


async def has_ended(pid):
    while is_alive(pid):
        await asyncio.sleep(0.005)


def an_rss_feed(entries, *, padding=0):
    items = "".join(
        f"<item><title>Title {n}</title><link>https://example.org/{n}</link>"
        f"<pubDate>Mon, 16 Feb 2026 08:{n % 60:02}:00 GMT</pubDate>"
        f"<description>Body {n} – ü 🐟 {'x' * padding}</description></item>"
        for n in range(entries)
    )
    head = '<?xml version="1.0"?><rss version="2.0"><channel><title>News</title>'
    return f"{head}{items}</channel></rss>".encode()


def a_page(text):
    return f"<html><head><title>T</title></head><body>{text}</body></html>".encode()


ARTICLE = "<article><h1>News</h1>" + "<p>The river rose by a hand.</p>" * 20 + "</article>"


async def test_h2_a_large_feed_is_parsed_in_a_worker_with_the_same_result():
    data = an_rss_feed(400, padding=2000)
    async with ParserPool(clock=SystemClock()) as parsers:
        there = await parsers.feed(data, content_type="application/rss+xml", url=URL)
    here = parse_feed(data, content_type="application/rss+xml", url=URL)
    assert len(data) > 10 * 65536
    assert len(there.entries) == 400
    assert there == here


@pytest.mark.parametrize("inline_bytes", [0, 65536], ids=["in a worker", "inline"])
async def test_t1_entries_that_were_seen_before_get_no_markdown(inline_bytes):
    since = datetime(2026, 2, 16, 8, 1, tzinfo=UTC)
    async with ParserPool(clock=SystemClock(), inline_bytes=inline_bytes) as parsers:
        feed = await parsers.feed(an_rss_feed(3), content_type=None, url=URL, since=since)
    assert [entry.markdown is None for entry in feed.entries] == [True, False, False]


async def test_h2_a_small_feed_is_parsed_inline_without_a_process():
    async with ParserPool(clock=SystemClock(), worker=("/nonexistent",)) as parsers:
        feed = await parsers.feed(an_rss_feed(3), content_type=None, url=URL)
    assert [entry.title for entry in feed.entries] == ["Title 0", "Title 1", "Title 2"]


async def test_h2_a_page_is_parsed_in_a_worker_with_the_same_result():
    async with ParserPool(clock=SystemClock()) as parsers:
        there = await parsers.page(a_page(ARTICLE), content_type="text/html", url=URL)
    (entry,) = there.entries
    assert entry == read_page(a_page(ARTICLE), content_type="text/html", url=URL)
    assert "rose by a hand" in entry.body


async def test_w4_selectors_are_applied_in_a_worker_with_the_same_result():
    watch = WatchSettings(include=("p",), ignore=("*hand*",))
    async with ParserPool(clock=SystemClock()) as parsers:
        there = await parsers.page(a_page(ARTICLE), content_type="text/html", url=URL, watch=watch)
        with pytest.raises(SelectorUnmatched, match="ol"):
            await parsers.page(
                a_page(ARTICLE), content_type=None, url=URL, watch=WatchSettings(("ol",))
            )
    here = read_page(a_page(ARTICLE), content_type="text/html", url=URL, watch=watch)
    assert there.entries == (here,)
    assert here.identity_hash is not None


async def test_h2_a_long_list_of_sources_is_parsed_in_a_worker_with_the_same_result():
    lines = "".join(
        f'<outline title="Füße {n}" xmlUrl="https://host{n}.example/?a=1&amp;b={n}"/>'
        for n in range(2000)
    )
    data = f'<opml><body>{lines}<outline xmlUrl="@x" headwater:sourceType="twitter"/></body></opml>'
    async with ParserPool(clock=SystemClock()) as parsers:
        found = await parsers.outlines(data.encode(), max_outlines=5000)
        assert list(found) == read_opml(data.encode())
        assert len(await parsers.outlines(data.encode(), max_outlines=100)) == 101
        assert len(await parsers.outlines(data.encode()[:60_000], max_outlines=100)) == 101
        for nothing in (b"no list", b"no list" * 20_000):
            with pytest.raises(UsageError, match="not an OPML file"):
                await parsers.outlines(nothing, max_outlines=10)


async def test_h4_errors_of_the_parsers_keep_their_type():
    async with ParserPool(clock=SystemClock(), inline_bytes=0) as parsers:
        with pytest.raises(NoContent) as no_content:
            await parsers.page(a_page(""), content_type="text/html", url=URL)
        with pytest.raises(NotAFeed) as not_a_feed:
            await parsers.feed(b"\x00 nothing", content_type=None, url=URL)
    with pytest.raises(NoContent) as no_content_here:
        read_page(a_page(""), content_type="text/html", url=URL)
    with pytest.raises(NotAFeed) as not_a_feed_here:
        parse_feed(b"\x00 nothing", content_type=None, url=URL)
    assert str(no_content.value) == str(no_content_here.value)
    assert str(not_a_feed.value) == str(not_a_feed_here.value)


async def test_h2_a_hanging_parse_is_stopped_and_the_next_one_works(tmp_path):
    clock = HandClock()
    async with odd_parsers(clock=clock, timeout_seconds=7) as parsers:
        first = await order(parsers, "echo before")
        job = asyncio.create_task(order(parsers, f"hang {tmp_path / 'begun'}"))
        await exists(tmp_path / "begun")
        clock.expire_all_timeouts()
        with pytest.raises(TooExpensive) as raised:
            await job
        after = await order(parsers, "echo after")
    assert str(raised.value) == "parsing https://example.org/feed?token=*** took longer than 7 s"
    assert after.body == "after"
    assert after.id != first.id
    assert not is_alive(first.id)


@pytest.mark.parametrize("hog", ["hog", "hog_in_c", "grow 460"])
async def test_h2_a_worker_over_the_memory_limit_is_ended_and_the_next_one_works(hog):
    async with odd_parsers() as parsers:
        with pytest.raises(TooExpensive, match="needed more than 512 MB of memory"):
            await order(parsers, hog)
        assert (await order(parsers, "echo after")).body == "after"


async def test_h2_a_worker_that_has_grown_is_replaced():
    async with odd_parsers() as parsers:
        small = await order(parsers, "grow 100")
        large = await order(parsers, "grow 300")
        fresh = await order(parsers, "grow 1")
    assert small.id == large.id != fresh.id


@pytest.mark.parametrize(
    ("fate", "message"),
    [
        ("die SIGSEGV", "ended its process with SIGSEGV"),
        ("die SIGKILL", "ended its process with SIGKILL"),
        ("die 40", "ended its process with signal 40"),
        ("die SIGALRM", "took too long"),
        ("leave 3", "ended its process with exit code 3"),
        ("flood 70", "gave more than 64 MB of entries"),
    ],
)
async def test_h2_a_worker_that_dies_fails_only_its_document(fate, message):
    async with odd_parsers() as parsers:
        with pytest.raises(TooExpensive, match=message):
            await order(parsers, fate)
        assert (await order(parsers, "echo after")).body == "after"


async def test_h2_a_worker_is_killed_during_a_job(tmp_path):
    async with odd_parsers() as parsers:
        pid = int((await order(parsers, "echo before")).id)
        job = asyncio.create_task(order(parsers, f"hang {tmp_path / 'begun'}"))
        await exists(tmp_path / "begun")
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(TooExpensive, match="SIGKILL"):
            await job
        assert (await order(parsers, "echo after")).body == "after"


async def test_a_worker_that_died_while_idle_is_replaced():
    async with odd_parsers() as parsers:
        pid = int((await order(parsers, "echo before")).id)
        os.kill(pid, signal.SIGKILL)
        await has_ended(pid)
        assert (await order(parsers, "echo after")).body == "after"


async def test_h4_an_unknown_error_is_one_line_and_the_worker_stays():
    async with odd_parsers() as parsers:
        before = await order(parsers, "echo before")
        with pytest.raises(FetchError) as raised:
            await order(parsers, "raise_odd")
        with pytest.raises(NotAFeed, match="no feed here"):
            await order(parsers, "refuse no feed here")
        after = await order(parsers, "echo after")
    assert str(raised.value) == (
        "https://example.org/feed?token=*** could not be parsed: RecursionError too deep by far"
    )
    assert before.id == after.id


async def test_output_of_a_library_does_not_corrupt_the_frames():
    async with odd_parsers() as parsers:
        assert (await order(parsers, "print_noise")).body == "quiet"
        assert (await order(parsers, "echo after")).body == "after"


async def test_twenty_documents_at_once_share_two_workers():
    async with odd_parsers(processes=2) as parsers:
        texts = [f"document {n} " + "x" * 100_000 for n in range(20)]
        entries = await asyncio.gather(*(order(parsers, f"echo {text}") for text in texts))
    assert [entry.body for entry in entries] == texts
    assert len({entry.id for entry in entries}) <= 2


async def test_documents_are_parsed_in_the_order_of_arrival():
    done: list[int] = []

    async def parse(n):
        await order(parsers, f"echo {n}")
        done.append(n)

    async with odd_parsers() as parsers:
        await asyncio.gather(*(parse(n) for n in range(10)))
    assert done == list(range(10))


async def test_a_cancelled_caller_ends_its_worker(tmp_path):
    async with odd_parsers() as parsers:
        pid = (await order(parsers, "echo before")).id
        job = asyncio.create_task(order(parsers, f"hang {tmp_path / 'begun'}"))
        await exists(tmp_path / "begun")
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        assert (await order(parsers, "echo after")).body == "after"
        await has_ended(pid)


async def test_a_caller_cancelled_while_its_worker_starts_leaves_no_process():
    async with odd_parsers(processes=2) as parsers:
        for turns in range(12):
            job = asyncio.create_task(order(parsers, "echo never"))
            for _ in range(turns):
                await asyncio.sleep(0)
            job.cancel()
            with pytest.raises(asyncio.CancelledError):
                await job
        assert (await order(parsers, "echo after")).body == "after"
    assert children() == []


async def test_closing_ends_every_worker_and_fails_every_caller(tmp_path):
    parsers = odd_parsers()
    async with parsers:
        pid = (await order(parsers, "echo before")).id
        jobs = [
            asyncio.create_task(order(parsers, f"hang {tmp_path / 'begun'}")),
            asyncio.create_task(order(parsers, "echo waits for its turn")),
        ]
        await exists(tmp_path / "begun")
    answers = await asyncio.gather(*jobs, return_exceptions=True)
    assert [type(answer) for answer in answers] == [LocalFault, LocalFault]
    assert not is_alive(pid)
    assert children() == []
    with pytest.raises(LocalFault, match="the service is shutting down"):
        await order(parsers, "echo too late")


def children(name=b"_worker"):
    """The parse workers of this process whose command contains a name."""
    own = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            ppid = stat.read_text().rpartition(")")[2].split()[1]
            command = (stat.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(ppid) == os.getpid() and name in command:
            own.append(int(stat.parent.name))
    return own


@pytest.mark.parametrize("worker", [("/nonexistent",), (sys.executable, "-c", "")])
async def test_o1_a_process_that_cannot_be_started_is_a_local_failure(worker):
    async with ParserPool(clock=HandClock(), worker=worker, inline_bytes=0) as parsers:
        with pytest.raises(LocalFault, match="a process for parsing"):
            await parsers.feed(b"<rss/>", content_type=None, url=URL)


async def test_s8_workers_ignore_ctrl_c_sigterm_and_sighup():
    async with odd_parsers() as parsers:
        pid = int((await order(parsers, "echo before")).id)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
        assert int((await order(parsers, "echo after")).id) == pid
        assert os.getpgid(pid) != os.getpgrp()


OWNER = """
import asyncio, sys
from headwater.clock import SystemClock
from headwater.fetch.pool.parser_pool import ParserPool

class StillClock(SystemClock):
    async def sleep(self, seconds):
        await asyncio.Event().wait()

async def main(document, *worker):
    options = {"inline_bytes": 0, "timeout_seconds": 0.1, "worker": worker}
    async with ParserPool(clock=StillClock(), **options) as parsers:
        feed = await parsers.feed(b"echo hello", content_type=None, url="http://x/")
        print(feed.entries[0].id, flush=True)
        await parsers.feed(document.encode(), content_type=None, url="http://x/")
        await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("job", ["echo idle", "hang"])
async def test_h1_a_worker_does_not_outlive_a_killed_owner(job, tmp_path):
    begun = tmp_path / "begun"
    document = f"hang {begun}" if job == "hang" else job
    command = [sys.executable, "-c", OWNER, document, *MISBEHAVING_WORKER]
    owner = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert owner.stdout is not None
    pid = int(await owner.stdout.readline())
    if job == "hang":
        await exists(begun)
    assert is_alive(pid)
    owner.kill()
    await owner.wait()
    await has_ended(pid)


def test_workers_serve_under_uvloop_as_well(tmp_path):
    async def scenario():
        clock = HandClock()
        async with odd_parsers(clock=clock) as parsers:
            job = asyncio.create_task(order(parsers, f"hang {tmp_path / 'begun'}"))
            await exists(tmp_path / "begun")
            clock.expire_all_timeouts()
            with pytest.raises(TooExpensive):
                await job
            return await asyncio.gather(*(order(parsers, f"echo {n}") for n in range(5)))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        entries = runner.run(scenario())
    assert [entry.body for entry in entries] == ["0", "1", "2", "3", "4"]
    assert children() == []


def small_feed(number):
    return (
        f"<rss><channel><title>{number}</title><item><title>Item {number}</title>"
        f"<guid>{number}</guid></item></channel></rss>"
    ).encode()


class BurstClock(SystemClock):
    """A clock at which everything arrives at the same time."""

    def monotonic(self):
        return 0.0


async def parsed(parsers, data, url=URL):
    return await parsers.feed(data, content_type=None, url=url)


async def test_h2_small_documents_in_a_burst_are_parsed_by_a_worker():
    async with ParserPool(clock=BurstClock(), spare_core=True) as parsers:
        feeds = await asyncio.gather(*(parsed(parsers, small_feed(n)) for n in range(40)))
        assert [feed.title for feed in feeds] == [str(n) for n in range(40)]
        assert [feed.entries[0].title for feed in feeds] == [f"Item {n}" for n in range(40)]
        assert len(children(b"worker_main")) == 1


async def test_h2_a_single_small_document_starts_no_process():
    for clock, spare in ((SystemClock(), True), (BurstClock(), False)):
        async with ParserPool(clock=clock, spare_core=spare) as parsers:
            for number in range(3):
                assert (await parsed(parsers, small_feed(number))).title == str(number)
                await asyncio.sleep(0.01)
            assert len(children(b"worker_main")) == 0


async def test_h4_only_the_bad_document_of_a_batch_fails():
    async with ParserPool(clock=BurstClock(), spare_core=True) as parsers:
        documents = [small_feed(0), small_feed(1), b"no feed", small_feed(3)]
        results = await asyncio.gather(
            *(parsed(parsers, data) for data in documents), return_exceptions=True
        )
        assert isinstance(results.pop(2), NotAFeed)
        assert [getattr(feed, "title", feed) for feed in results] == ["0", "1", "3"]


async def test_h2_of_a_batch_only_the_document_that_ends_its_worker_fails():
    async with ParserPool(
        clock=BurstClock(), spare_core=True, worker=MISBEHAVING_WORKER, inline_bytes=1000
    ) as parsers:
        await parsed(parsers, small_feed(0))  # alone, so in this process
        results = await asyncio.gather(
            *(parsed(parsers, data) for data in (b"echo 1", b"die SIGKILL", b"echo 2")),
            return_exceptions=True,
        )
        assert isinstance(results.pop(1), TooExpensive)
        assert all(not isinstance(result, Exception) for result in results)


class PatientClock(HandClock):
    """Gives a worker all the time it needs to start."""

    async def sleep(self, seconds):
        if seconds > 10:
            await asyncio.Event().wait()
        await super().sleep(seconds)


def burst_pool(**options):
    return ParserPool(clock=options.pop("clock", BurstClock()), spare_core=True, **options)


def padded(order):
    """So long that a dozen of them make a batch."""
    return order + b" " * 20_000


async def test_h2_all_batches_in_a_row_get_their_results():
    documents = [padded(small_feed(n)) for n in range(100)]
    async with burst_pool() as parsers:
        feeds = await asyncio.gather(*(parsed(parsers, data) for data in documents))
        assert feeds == [parse_feed(data, url=URL) for data in documents]
        assert len(children(b"worker_main")) == 1


async def test_h2_a_worker_that_ends_fails_no_other_document_of_its_batches():
    orders = [padded(b"echo %d" % n) for n in range(50)]
    orders[20] = padded(b"die SIGKILL")
    async with burst_pool(worker=MISBEHAVING_WORKER) as parsers:
        await parsed(parsers, small_feed(0))  # alone, so in this process
        results = await asyncio.gather(
            *(parsed(parsers, data) for data in orders), return_exceptions=True
        )
    assert isinstance(results.pop(20), TooExpensive)
    bodies = [result.entries[0].body for result in results if isinstance(result, Feed)]
    assert bodies == [str(n) for n in range(50) if n != 20]


async def test_h2_a_batch_that_hangs_is_stopped_and_only_its_cause_is_retried(tmp_path):
    begun, clock = tmp_path / "begun", PatientClock()
    orders = [f"hang {begun}".encode(), *(padded(b"echo 1") for _ in range(30))]
    async with burst_pool(worker=MISBEHAVING_WORKER, clock=clock) as parsers:
        await parsed(parsers, small_feed(0))
        jobs = [asyncio.create_task(parsed(parsers, data)) for data in orders]
        await exists(begun)
        begun.unlink()
        clock.expire_all_timeouts()
        results = await asyncio.gather(*jobs[1:], return_exceptions=True)
        assert not any(isinstance(result, Exception) for result in results)
        await exists(begun)  # it hangs again, alone
        assert not jobs[0].done()
        clock.expire_all_timeouts()
        with pytest.raises(TooExpensive):
            await jobs[0]


async def batch_results(*orders):
    """What a worker returns for each of these documents: a body, or the type of its error."""
    worker = ParserProcess(MISBEHAVING_WORKER, memory_mb=512)
    try:
        await asyncio.to_thread(worker.start)
        jobs = [Job("feed", order, None, URL, 10) for order in orders]
        results = await asyncio.to_thread(worker.work_batch, jobs)
        is_usable = worker.is_usable
    finally:
        await asyncio.to_thread(worker.end)
    texts = [r.entries[0].body if isinstance(r, Feed) else type(r) for r in results]
    return texts, is_usable


@pytest.mark.parametrize(
    ("orders", "results", "is_usable"),
    [
        ((b"echo 1", b"refuse", b"echo 2"), ["1", NotAFeed, "2"], True),
        ((b"echo 1", b"die SIGKILL", b"echo 2"), [WorkerEnded] * 3, False),
        ((b"echo 1", b"die 40", b"echo 2"), [WorkerEnded] * 3, False),  # a signal without a name
        ((b"echo 1", b"hog", b"echo 2"), ["1", WorkerEnded, WorkerEnded], False),
        # it has grown and is replaced: the others are parsed by another one
        ((b"grow 300", b"echo 1", b"echo 2"), [str(300 << 20), WorkerEnded, WorkerEnded], False),
    ],
)
async def test_h2_every_document_of_a_batch_has_a_result(orders, results, is_usable):
    assert await batch_results(*orders) == (results, is_usable)


async def test_h2_every_document_has_a_result_if_a_batch_raises(monkeypatch):
    work_batch = ParserProcess.work_batch

    def fails_for_batches(worker, jobs):
        if len(jobs) > 1:
            raise RuntimeError("unexpected")
        return work_batch(worker, jobs)

    monkeypatch.setattr(ParserProcess, "work_batch", fails_for_batches)
    async with burst_pool() as parsers:
        await parsed(parsers, small_feed(0))  # alone, so in this process
        async with asyncio.timeout(60):
            feeds = await asyncio.gather(*(parsed(parsers, small_feed(n)) for n in range(1, 4)))
    assert [feed.title for feed in feeds] == ["1", "2", "3"]


async def test_h2_documents_after_one_that_grows_their_worker_are_parsed_by_another():
    orders = [b"echo 1", b"grow 300", b"echo 2", b"echo 3"]
    async with burst_pool(worker=MISBEHAVING_WORKER) as parsers:
        await parsed(parsers, small_feed(0))  # alone, so in this process
        feeds = await asyncio.gather(*(parsed(parsers, order) for order in orders))
    assert [feed.entries[0].body for feed in feeds] == ["1", str(300 << 20), "2", "3"]


@pytest.mark.parametrize("content_type", ["\x01" * 60_000, '"' * 60_000, "\U0001f41f" * 60_000])
async def test_h2_a_batch_may_have_long_content_types(content_type):
    async with burst_pool() as parsers:
        await parsed(parsers, small_feed(0))
        reading = (parsers.feed(small_feed(1), content_type=content_type, url=URL) for _ in "123")
        assert [feed.title for feed in await asyncio.gather(*reading)] == ["1"] * 3


async def test_closing_fails_all_queued_documents(tmp_path):
    orders = [f"hang {tmp_path / 'begun'}".encode(), *(padded(b"echo 1") for _ in range(50))]
    async with burst_pool(worker=MISBEHAVING_WORKER) as parsers:
        await parsed(parsers, small_feed(0))
        jobs = [asyncio.create_task(parsed(parsers, data)) for data in orders]
        await exists(tmp_path / "begun")
    results = await asyncio.gather(*jobs, return_exceptions=True)
    assert {type(result) for result in results} == {LocalFault}
    assert children() == []


@pytest.mark.parametrize("worker", [("/nonexistent",), (sys.executable, "-c", "")])
async def test_o1_a_process_that_cannot_be_started_fails_all_queued_documents(worker):
    async with burst_pool(worker=worker) as parsers:
        await parsed(parsers, small_feed(0))
        jobs = (parsed(parsers, padded(small_feed(n))) for n in range(30))
        results = await asyncio.gather(*jobs, return_exceptions=True)
    assert {type(result) for result in results} == {LocalFault}
