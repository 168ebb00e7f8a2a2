"""Doctor: looks at the program, its surroundings and its database, and says what to do."""

import asyncio
import os
import ssl
import stat
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from headwater.errors import ConfigError, DatabaseUnavailable, HeadwaterError
from headwater.operations.checks import Check, fine, note, wrong
from headwater.operations.readiness import disk
from headwater.settings import Settings
from headwater.store import Store

LEAST_PYTHON = (3, 11)
LEAST_OPENSSL = (3, 0)
# what everything a stranger sends goes through first: older ones have known holes (Q1)
LEAST_VERSIONS: Mapping[str, tuple[str, str]] = {
    "httptools": ("HTTP client", "0.9"),
    "pyopenssl": ("TLS", "26.4"),
    "aiodns": ("name resolution", "4.0"),
    "lxml": ("XML", "6.1"),
    "cryptography": ("crypto", "48"),
    "uvicorn": ("HTTP server", "0.50"),
}
RESOLVER_FILE = Path("/etc/resolv.conf")


def surroundings() -> list[Check]:
    """Python, the libraries that guard us, and name resolution's configuration."""
    return [_python(), _openssl(), *(_library(name) for name in LEAST_VERSIONS)]


async def names(resolver_file: Path = RESOLVER_FILE) -> Check:
    """Whether names can be resolved; asks for this machine's own name alone."""
    try:
        await asyncio.get_running_loop().getaddrinfo("localhost", 80)
    except OSError as error:
        advice = "look at /etc/hosts and /etc/nsswitch.conf"
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
    """Whether the configuration can be read, and how much of it is not the default."""
    if problem is not None or settings is None:
        return wrong("configuration", str(problem), "mend that key; `headwater config` shows all")
    own = sorted({origin for origin in settings.origins.values() if origin != "default"})
    count = sum(origin != "default" for origin in settings.origins.values())
    return fine("configuration", f"{count} keys set by {', '.join(own)}" if own else "all defaults")


def master_key(settings: Settings, key_file: Path, *, keys_stored: bool) -> Check:
    """Whether the key that seals secrets is there and nobody else's to read (U5)."""
    if settings.encryption.master_key is not None:
        return fine("master key", "given by app.encryption.master-key")
    try:
        mode = stat.S_IMODE(key_file.stat().st_mode)
    except FileNotFoundError:
        if keys_stored:
            advice = "bring it back from a copy, or store all API keys again"
            return wrong("master key", f"{key_file} is gone, and API keys are stored", advice)
        return fine("master key", "not made yet: no API key needs it")
    except OSError as error:
        return wrong("master key", f"{key_file}: {error.strerror}", "look at its folder's rights")
    if os.name == "posix" and mode & 0o077:
        advice = f"chmod 600 {key_file}"
        return wrong("master key", f"{key_file} is open to others (mode {mode:04o})", advice)
    return fine("master key", f"{key_file} (mode {mode:04o})")


def database_file(settings: Settings) -> Check | None:
    """What to say of a SQLite database before it is opened; None: open it."""
    file = settings.database_file
    if file is None:
        return None
    try:
        if file.is_file():
            return None
        if file.exists():
            return wrong("database", f"{file} is not a file", "app.database-url names another")
    except OSError as error:
        return wrong("database", f"{file}: {error.strerror}", "look at its folder's rights")
    return note("database", f"{file} is not there yet", "the first command makes it")


async def database(store: Store) -> list[Check]:
    """Whether the database answers, fits this program, is whole, and who polls it."""
    try:
        version_there, newest = await store.schema()
        found = [fine("database", "answers"), _schema(version_there, newest)]
        found += await _integrity(store)
        claimed = await asyncio.to_thread(store.database.is_claimed)
    except HeadwaterError as error:
        advice = "stop headwater, keep a copy of the file, and go back to a backup"
        if isinstance(error, DatabaseUnavailable):
            advice = "see that it runs, and that app.database-url and its rights are right"
        return [wrong("database", _without_referral(error), advice)]
    if claimed:
        return [*found, fine("polling", "a headwater process polls this database")]
    advice = (
        "headwater worker, or headwater serve"
        if store.database.takes_workers
        else "headwater serve"
    )
    return [*found, note("polling", "nobody polls this database now", advice)]


async def is_current(store: Store) -> bool:
    """Whether the database has the schema that this program works with."""
    try:
        there, newest = await store.schema()
    except HeadwaterError:
        return False
    return there == newest


def room(settings: Settings) -> Check:
    """Whether the disk has room."""
    try:
        return disk(settings)
    except OSError as error:
        return wrong("disk", str(error.strerror), "look at the folder of app.database-url")


def _python() -> Check:
    there = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info[:2] < LEAST_PYTHON:
        return wrong("python", there, "install Python 3.11 or newer")
    return fine("python", there)


def _openssl() -> Check:
    if ssl.OPENSSL_VERSION_INFO[:2] < LEAST_OPENSSL:
        return wrong("TLS", ssl.OPENSSL_VERSION, "use a Python built with OpenSSL 3")
    return fine("TLS", ssl.OPENSSL_VERSION)


def _library(name: str) -> Check:
    about, least = LEAST_VERSIONS[name]
    advice = "install the pinned versions again: make run"
    try:
        there = version(name)
    except PackageNotFoundError:
        return wrong(about, f"{name} is not installed", advice)
    if _numbers(there) < _numbers(least):
        return wrong(about, f"{name} {there} is older than {least}", advice)
    return fine(about, f"{name} {there}")


def _numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version."""
    parts: list[int] = []
    for part in text.split("."):
        if not part.isdigit():
            break
        parts.append(int(part))
    return tuple(parts)


def _schema(there: int, newest: int) -> Check:
    told = f"version {there}, this program knows {newest}"
    if there > newest:
        return wrong("schema", told, "upgrade headwater")
    if there < newest:
        return note("schema", told, "headwater migrate")
    return fine("schema", f"version {there}")


async def _integrity(store: Store) -> list[Check]:
    try:
        faults = await asyncio.to_thread(store.database.faults)
    except Exception as error:
        translated = store.database.translate(error)
        if translated is error:
            raise
        faults = [_without_referral(translated)]
    orphans = [fault for fault in faults if fault.endswith("row without owner")]
    damage = [fault for fault in faults if fault not in orphans]
    return [
        _faultless("integrity", damage, "keep a copy of the file and go back to a backup"),
        _faultless("foreign keys", orphans, "make a backup and restore it: that sorts rows out"),
    ]


def _without_referral(error: Exception) -> str:
    """What is wrong, without the advice to ask the one who says it."""
    return str(error).removesuffix("; run `headwater doctor`")


def _faultless(name: str, faults: list[str], advice: str) -> Check:
    if not faults:
        return fine(name, "no faults")
    more = f" and {len(faults) - 1:,} more" if len(faults) > 1 else ""
    return wrong(name, f"{faults[0]}{more}", advice)
