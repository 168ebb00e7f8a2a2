"""The polled web of a case: its files, generations and server."""

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

from bench import external_tools, feed_server, feeds, machine, nginx
from bench.certificates import make_certificates

_FIRST_CHANGE = 1_700_000_000  # modification time of a file; each generation has a different one


class Server(Protocol):
    """A server that counts its responses."""

    def responses(self, at_least: int) -> Counter[str]:
        """The responses since the last call, by status."""
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
        """Replace every feed by its next generation."""
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
    """Serve the first generation; by nginx if installed, unless our own server is required."""
    began = datetime.now(UTC)
    publish(folder / "web", "still" if kind == "slow" else kind, hosts, 0, began, entries)
    authority = None
    if tls is not None:
        authority = make_certificates(folder / "tls", [feeds.address(n) for n in range(hosts)])
    program = None if own else external_tools.program("nginx")
    port, core = free_port(), machine.SERVER_CORE % (os.cpu_count() or 1)
    started = (
        feed_server.running(folder, port, hosts, core, tls)
        if program is None
        else nginx.running(program, folder, port, hosts, core, tls)
    )
    scheme = "http" if tls is None else "https"
    with started as server:
        yield Site(folder, kind, port, hosts, scheme, authority, server, began, entries)


def publish(
    root: Path, kind: str, hosts: int, generation: int, began: datetime, entries: int
) -> None:
    """Write all feeds of a generation, then switch the symbolic link to them."""
    files = root / f"{kind}.{generation}"
    files.mkdir(parents=True)
    changed = _FIRST_CHANGE + generation
    for number in range(hosts):
        path = files / f"{number}.xml"
        document = feeds.document(number, generation, began, entries, paged=kind == "paged")
        path.write_bytes(document)
        os.utime(path, (changed, changed))
    (root / feeds.PAGE).write_bytes(feeds.page())
    link = root / "link"
    link.symlink_to(files)
    link.rename(root / kind)
    shutil.rmtree(root / f"{kind}.{generation - 1}", ignore_errors=True)


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
