"""The web that is polled in a case: its files, its generations, its server."""

import os
import shutil
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from bench import feeds, machine, nginx, own_server, tools
from bench.certificates import make_certificates

_FIRST_CHANGE = 1_700_000_000  # of a file; every generation has a moment of its own


class Server(Protocol):
    """What counts its own answers."""

    def answers(self, at_least: int) -> Counter[str]:
        """The answers since the last call, by status."""
        ...


@dataclass
class Site:
    """Feeds on many hosts, all of one kind."""

    folder: Path
    kind: str
    port: int
    hosts: int
    scheme: str
    authority: Path | None
    server: Server
    began: datetime
    entries: int
    generation: int = 0

    def publish(self) -> None:
        """Put the next generation of every feed in the place of the last one."""
        self.generation += 1
        files = self.folder / "web"
        publish(files, self.kind, self.hosts, self.generation, self.began, self.entries)


@contextmanager
def open_site(
    folder: Path,
    kind: str,
    hosts: int,
    *,
    tls: str | None = None,
    own: bool = False,
    entries: int = feeds.ENTRIES,
) -> Iterator[Site]:
    """Serve the first generation; by nginx where there is one, unless it must be our own."""
    began = datetime.now(UTC)
    publish(folder / "web", "still" if kind == "slow" else kind, hosts, 0, began, entries)
    authority = None
    if tls is not None:
        authority = make_certificates(folder / "tls", [feeds.address(n) for n in range(hosts)])
    program = None if own else tools.program("nginx")
    port, core = free_port(), machine.SERVER_CORE % (os.cpu_count() or 1)
    started = (
        own_server.running(folder, port, hosts, core, tls)
        if program is None
        else nginx.running(program, folder, port, hosts, core, tls)
    )
    scheme = "http" if tls is None else "https"
    with started as server:
        yield Site(folder, kind, port, hosts, scheme, authority, server, began, entries)


def publish(
    root: Path, kind: str, hosts: int, generation: int, began: datetime, entries: int
) -> None:
    """Write all feeds of a generation, then let the link point to them."""
    files = root / f"{kind}.{generation}"
    files.mkdir(parents=True)
    changed = _FIRST_CHANGE + generation
    for number in range(hosts):
        path = files / f"{number}.xml"
        path.write_bytes(feeds.document(number, generation, began, entries))
        os.utime(path, (changed, changed))
    link = root / "link"
    link.symlink_to(files)
    link.rename(root / kind)
    shutil.rmtree(root / f"{kind}.{generation - 1}", ignore_errors=True)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
