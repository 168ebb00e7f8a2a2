"""Checks of `headwater doctor`: the program, its environment, its database and its sources."""

import asyncio
import os
import ssl
import stat
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from itertools import takewhile
from pathlib import Path

from headwater.engine.cleanup import clock_difference, paused_until
from headwater.errors import ConfigError, DatabaseUnavailable, HeadwaterError
from headwater.model import Source
from headwater.operations.readiness import (
    ALL_DRAINING,
    HOW_TO_POLL_AGAIN,
    Check,
    disk,
    fine,
    note,
    wrong,
)
from headwater.operations.source_views import list_sources
from headwater.rules.failure_kinds import one_line
from headwater.rules.schedule import CLOCK_TOLERANCE, is_from_the_future
from headwater.rules.url_secrets import masked
from headwater.settings import Settings
from headwater.store import Store
from headwater.store.row_mapping import MAX_LOGGED, unreadable_rows
from headwater.store.shards import Shards, all_draining
from headwater.store.sources import SourceFilter

LEAST_PYTHON = (3, 11)
LEAST_OPENSSL = (3, 0)
# libraries that read untrusted input: older versions have known vulnerabilities (Q1)
LEAST_VERSIONS: Mapping[str, tuple[str, str]] = {
    "httptools": ("HTTP client", "0.9"),
    "pyopenssl": ("TLS", "26.4"),
    "aiodns": ("name resolution", "4.0"),
    "lxml": ("XML", "6.1"),
    "cryptography": ("crypto", "48"),
    "uvicorn": ("HTTP server", "0.50"),
}
_REINSTALL = "install the pinned versions again: make run"
# without an article element: its main text is found by trafilatura
_PAGE = b"<title>A page</title><div><h1>News</h1><p>Some words about today.</p></div>"
RESOLVER_FILE = Path("/etc/resolv.conf")
_LONG_FAILURE = timedelta(days=7)
_FIRST_POLL_WITHIN = timedelta(days=1)
_MOST_NAMED = 2  # sources named in one check
_MOST_ROWS_NAMED = 20
_ADDED_LATER, _POLLED_LATER = "added later than that", "polled later than that"
_ADVICE = {  # what may be found in sources, and what to do
    "added over a day ago and never polled": "headwater serve",
    "failing for more than 7 days": "headwater list --health failing",
    "disabled after failures": "headwater list --health disabled",
}


def environment() -> list[Check]:
    """Check the versions of Python and of the libraries that read untrusted input."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    checks = [fine("python", python), fine("TLS", ssl.OPENSSL_VERSION)]
    if sys.version_info[:2] < LEAST_PYTHON:
        checks[0] = wrong("python", python, "install Python 3.11 or newer")
    if ssl.OPENSSL_VERSION_INFO[:2] < LEAST_OPENSSL:
        checks[1] = wrong("TLS", ssl.OPENSSL_VERSION, "use a Python built with OpenSSL 3")
    for name, (about, least) in LEAST_VERSIONS.items():
        try:
            there = version(name)
        except PackageNotFoundError:
            checks.append(wrong(about, f"{name} is not installed", _REINSTALL))
            continue
        if _numbers(there) < _numbers(least):
            checks.append(wrong(about, f"{name} {there} is older than {least}", _REINSTALL))
        else:
            checks.append(fine(about, f"{name} {there}"))
    return checks


def pages() -> Check:
    """Check that a page can be parsed, with all libraries that this needs."""
    # slow to import, and needed by no other check
    from headwater.fetch.page.page_document import read_page

    try:
        read_page(_PAGE, url="https://example.org/")
    except Exception as error:  # noqa: BLE001 - a broken library may raise anything
        detail = f"a small page cannot be parsed: {type(error).__name__}: {one_line(error)}"
        return wrong("pages", detail, _REINSTALL)
    return fine("pages", "a small page was parsed")


async def names(resolver_file: Path = RESOLVER_FILE) -> Check:
    """Check name resolution; resolves only the name of this machine."""
    try:
        await asyncio.get_running_loop().getaddrinfo("localhost", 80)
    except OSError as error:
        advice = "check /etc/hosts and /etc/nsswitch.conf"
        return wrong("names", f"localhost has no address: {error}", advice)
    try:
        text = await asyncio.to_thread(resolver_file.read_text, "utf-8", "replace")
    except OSError:
        text = ""
    lines = (line.split() for line in text.splitlines())
    servers = [words[1] for words in lines if words[:1] == ["nameserver"] and len(words) > 1]
    if not servers:
        advice = f"add a nameserver to {resolver_file}"
        return note("names", "no name server is configured: only addresses can be polled", advice)
    return fine("names", f"name servers: {', '.join(servers)}")


def configuration(settings: Settings | None, problem: ConfigError | None) -> Check:
    """Check that the configuration is valid; the detail counts the keys that are set."""
    if problem is not None or settings is None:
        return wrong(
            "configuration",
            str(problem),
            "correct the configuration; checks that need it were skipped",
        )
    own = sorted({origin for origin in settings.origins.values() if origin != "default"})
    count = sum(origin != "default" for origin in settings.origins.values())
    return fine(
        "configuration", f"keys set: {count}, by {', '.join(own)}" if own else "all defaults"
    )


def retention(settings: Settings) -> Check:
    """Report how long content is kept; processed articles by default forever (C1)."""
    source = settings.source
    kept = f"posts and articles {source.max_article_age_days} days"
    polls = f"polls {source.poll_history_days} days, their daily counts {source.daily_history_days}"
    if source.processed_retention_days is None:
        return note(
            "retention",
            f"{kept}, processed articles and their posts forever, {polls}",
            "to let the database stop growing, set app.source.processed-retention-days: processed "
            "articles are deleted that many days after their date or after they were marked",
        )
    processed = f"processed articles {source.processed_retention_days} days"
    return fine("retention", f"{kept}, {processed}, {polls}")


def master_key(settings: Settings, key_file: Path, *, keys_stored: bool) -> Check:
    """Check that the master key exists and that only its owner can read it (U5)."""
    if settings.encryption.master_key is not None:
        return fine("master key", "given by app.encryption.master-key")
    try:
        mode = stat.S_IMODE(key_file.stat().st_mode)
    except FileNotFoundError:
        if keys_stored:
            advice = "restore it from a copy, or store all API keys again"
            return wrong("master key", f"{key_file} is missing, but API keys are stored", advice)
        return fine("master key", "not created yet: no API key needs it")
    except OSError as error:
        return wrong(
            "master key", f"{key_file}: {error.strerror}", "check the permissions of its folder"
        )
    if os.name == "posix" and mode & 0o077:
        advice = f"chmod 600 {key_file}"
        return wrong("master key", f"{key_file} can be read by others (mode {mode:04o})", advice)
    return fine("master key", f"{key_file} (mode {mode:04o})")


def database_file(settings: Settings) -> Check | None:
    """Check a SQLite file before it is opened; None if it can be opened."""
    file = settings.database_file
    if file is None:
        return None
    try:
        if file.is_file():
            return None
        if file.exists():
            return wrong("database", f"{file} is not a file", "set app.database-url to a file")
    except OSError as error:
        return wrong("database", f"{file}: {error.strerror}", "check the permissions of its folder")
    advice = "`headwater serve` and `headwater add URL` create it"
    return note("database", f"{file} does not exist yet", advice)


async def database(store: Store) -> list[Check]:
    """Check that the database responds, has the right schema and no damage, and is polled."""
    try:
        version_there, newest = await store.schema()
        grant = await store.database.read(store.database.missing_grant)
        found = [fine("database", "responds"), _schema(version_there, newest, grant)]
        found += await _integrity(store)
        locked = await asyncio.to_thread(store.database.is_poll_locked)
    except HeadwaterError as error:
        advice = "stop headwater, keep a copy of the file, and restore a backup"
        if isinstance(error, DatabaseUnavailable):
            advice = "check that it runs, and check app.database-url and its permissions"
        elif "permission denied" in str(error):
            advice = "use the database's user that owns the tables, see app.database-url"
        return [wrong("database", _without_doctor_advice(error), advice)]
    if locked:
        return [*found, fine("polling", "a headwater process polls this database")]
    advice = (
        "headwater worker, or headwater serve"
        if store.database.takes_workers
        else "headwater serve"
    )
    return [*found, note("polling", "no process polls this database now", advice)]


async def workers(store: Store) -> list[Check]:
    """Check that a worker polls, if there are any: nothing is polled while all are draining."""
    if not store.database.takes_workers:
        return []
    try:
        found = [one for one in await Shards(store.database).workers() if not one.is_silent]
    except HeadwaterError as error:
        return [wrong("workers", f"cannot be read: {one_line(error)}")]
    if all_draining(found):
        return [note("workers", ALL_DRAINING, HOW_TO_POLL_AGAIN)]
    return [fine("workers", f"{len(found)} alive")] if found else []


async def is_current(store: Store) -> bool:
    """Whether the database has the schema that this program needs."""
    try:
        there, newest = await store.schema()
    except HeadwaterError:
        return False
    return there == newest


async def survey(store: Store, now: datetime) -> list[Check]:
    """Check the clock and all sources, each read once."""
    total, found = 0, defaultdict[str, list[Source]](list)
    try:
        async for page in list_sources(store, SourceFilter()):
            total += len(page)
            for source in page:
                for what in _findings(source, now):
                    found[what].append(source)
        clock = await _clock(store, now, found)
    except HeadwaterError as error:
        return [wrong("sources", f"cannot be read: {one_line(error)}")]
    notes = [
        note("sources", f"{_count(found[what])} {what}: {_urls(found[what])}", advice)
        for what, advice in _ADVICE.items()
        if found[what]
    ]
    unreadable = _unreadable()
    healthy = fine("sources", f"{total:,}, no {'other ' if unreadable else ''}problems")
    return [*clock, *unreadable, *(notes or [healthy])]


async def has_keys(store: Store) -> bool:
    """Whether any user has an API key; False if the database cannot be read."""
    try:
        users = await store.accounts.users()
        return any([await store.api_keys.providers(user.id) for user in users])
    except HeadwaterError:
        return False


def disk_space(settings: Settings) -> Check:
    """Check the free disk space."""
    try:
        return disk(settings)
    except OSError as error:
        return wrong("disk", str(error.strerror), "check the folder of app.database-url")


async def _clock(store: Store, now: datetime, found: Mapping[str, list[Source]]) -> list[Check]:
    """Compare the clock with what is stored, and report a pause of cleanup (C3)."""
    time = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    clock = fine("clock", time)
    difference = await clock_difference(store, now)
    if difference is not None:
        where = "ahead of" if difference > timedelta() else "behind"
        days = abs(difference) / timedelta(days=1)
        detail = f"{time}, {days:,.0f} days {where} the newest stored data"
        clock = note("clock", detail, "check the clock; cleanup waits for an hour after a start")
    for what in (_POLLED_LATER, _ADDED_LATER):
        if found.get(what):
            clock = note("clock", f"{time}, but {_count(found[what])} {what}", "set the clock")
    until = await paused_until(store, now)
    if until is None:
        return [clock]
    detail = f"paused until {until:%H:%M} UTC: the clock jumped, or was wrong at a start"
    return [clock, note("cleanup", detail, "check the clock before cleanup resumes")]


def _unreadable() -> list[Check]:
    """Report rows with invalid values, which lists leave out (H4), among those read so far."""
    rows = unreadable_rows()
    if not rows:
        return []
    count = f"{len(rows):,}{' or more' if len(rows) == MAX_LOGGED else ''}"
    named = [f"{table} {id_}" for table, id_ in rows[:_MOST_ROWS_NAMED]]
    more = ", …" if len(rows) > _MOST_ROWS_NAMED else ""
    detail = f"not readable and left out: {count}: {', '.join(named)}{more}"
    return [note("rows", detail, "the log names the columns; correct or delete these rows")]


def _numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version."""
    return tuple(int(part) for part in takewhile(str.isdigit, text.split(".")))


def _schema(there: int, newest: int, grant: str | None) -> Check:
    detail = f"version {there}, this program needs {newest}"
    if there > newest:
        return wrong("schema", f"{detail}: the database is newer", "upgrade headwater")
    if there < newest and grant is not None:
        advice = f"let the owner of the database run: {grant}"
        return wrong("schema", f"{detail}; this user may not create tables", advice)
    if there == 0:
        return note("schema", "the database is empty", "headwater migrate")
    if there < newest:
        older = "the database is older, so commands refuse it; sources and keys were not checked"
        advice = (
            "stop all processes of the older version, make a backup with it, then run: "
            "headwater migrate (`serve` and `worker` upgrade it too)"
        )
        return wrong("schema", f"{detail}: {older}", advice)
    return fine("schema", f"version {there}")


async def _integrity(store: Store) -> list[Check]:
    try:
        faults = await asyncio.to_thread(store.database.integrity_errors)
    except Exception as error:
        translated = store.database.translate(error)
        if translated is error:
            raise
        faults = [_without_doctor_advice(translated)]
    orphans = [fault for fault in faults if fault.endswith("row without owner")]
    damage = [fault for fault in faults if fault not in orphans]
    return [
        _fault_check("integrity", damage, "keep a copy of the file and restore a backup"),
        _fault_check(
            "foreign keys", orphans, "make a backup and restore it: that removes these rows"
        ),
    ]


def _without_doctor_advice(error: Exception) -> str:
    """The error text without the advice to run this very command."""
    return str(error).removesuffix("; run `headwater doctor`")


def _fault_check(name: str, faults: list[str], advice: str) -> Check:
    if not faults:
        return fine(name, "no faults")
    more = f" and {len(faults) - 1:,} more" if len(faults) > 1 else ""
    return wrong(name, f"{faults[0]}{more}", advice)


def _findings(source: Source, now: datetime) -> Iterator[str]:
    """What is worth reporting about a source."""
    if is_from_the_future(source, now):
        yield _POLLED_LATER
    if source.created_at > now + CLOCK_TOLERANCE:
        yield _ADDED_LATER
    polled = source.last_success_at is not None or source.consecutive_failures > 0
    if not source.enabled:
        if source.disabled_reason is not None:
            yield "disabled after failures"
    elif source.failing_since is not None and source.failing_since < now - _LONG_FAILURE:
        yield "failing for more than 7 days"
    elif not polled and source.created_at < now - _FIRST_POLL_WITHIN:
        yield "added over a day ago and never polled"


def _count(sources: list[Source]) -> str:
    return "1 source" if len(sources) == 1 else f"{len(sources):,} sources"


def _urls(sources: list[Source]) -> str:
    named = ", ".join(masked(source.url) for source in sources[:_MOST_NAMED])
    return f"{named}, …" if len(sources) > _MOST_NAMED else named
