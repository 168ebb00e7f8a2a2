"""A network namespace in which every address responds; test_guard_namespace.py runs it.

It has loopback only, to which all addresses of both families are routed. One server responds at
all of them and records which were reached; one name server resolves the names. Connections to
private or public addresses are real here, and no packet leaves.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv6Address, ip_address, ip_network
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from headwater.errors import FetchError
from headwater.fetch.net.http_client import Client
from tests.factories import client_limits
from tests.fetch.loopback_servers import NOERROR, SILENT, A, NameServer, answer
from tests.rules.test_addresses import NEIGHBOURS, PUBLIC, REFUSED
from tests.system.conftest import Headwater, rss
from tests.system.network_namespace import bring_loopback_up

PUBLIC_ADDRESS, INSIDE_ADDRESS = "93.184.216.34", "10.0.0.1"
SPELLINGS = (
    "10.0.0.1",
    "10.1",
    "10.0.1",
    "167772161",
    "0xa000001",
    "0XA.0x0.0.1",
    "012.0.0.01",
    "01200000001",
    "10.0.0.1.",
    "１０.０.０.１",
    "10。0。0。1",
    "⑩.0.0.1",
    "%31%30.0.0.1",
    "10.0.0.1%2e",
    "[::ffff:10.0.0.1]",
    "[::ffff:a00:1]",
    "[0:0:0:0:0:ffff:0a00:0001]",
    "user:pass@10.0.0.1",
    "public.example@10.0.0.1",
    "public.example:80@10.0.0.1",
    "public.example%2f@10.0.0.1",
    "INSIDE.example",
    "inside.example.",
)
NAMES: dict[object, object] = {
    "public.example": [PUBLIC_ADDRESS],
    "six.example": ["2606:4700:4700::1111"],
    "inside.example": [INSIDE_ADDRESS],
    "inside6.example": ["fd00::1"],
    "metadata.example": ["169.254.169.254"],
    "mapped.example": ["::ffff:10.0.0.1"],
    "mixed.example": [PUBLIC_ADDRESS, INSIDE_ADDRESS],
    "mixed-first.example": [INSIDE_ADDRESS, PUBLIC_ADDRESS],
    "mixed6.example": [PUBLIC_ADDRESS, "fd00::1"],
    "last-of-many.example": [f"93.184.216.{n}" for n in range(1, 25)] + [INSIDE_ADDRESS],
}
SILENT_NAMES = [f"silent{number}.example" for number in range(100)]
CHANGING = "changing.example"  # public, private, public, private ...

Visit = dict[str, object]
Said = tuple[int, Any]


class ChangingNames(NameServer):
    """A name server that returns the public address only every other time."""

    def __init__(self) -> None:
        super().__init__({**NAMES, **dict.fromkeys(SILENT_NAMES, SILENT)})
        self._turns = cycle([[PUBLIC_ADDRESS], [INSIDE_ADDRESS]])

    def datagram_received(self, data: bytes, sender: object) -> None:
        name, kind, _ = self.question(data)
        if name == CHANGING:
            self.table[CHANGING, kind] = next(self._turns) if kind == A else NOERROR
        super().datagram_received(data, sender)


class RoutedNetwork:
    """The server behind every address."""

    def __init__(self, names: ChangingNames) -> None:
        self.names = names
        self.reached: list[str] = []

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place = ip_address(writer.get_extra_info("sockname")[0])
        mapped = place.ipv4_mapped if isinstance(place, IPv6Address) else None
        self.reached.append(str(mapped or place))
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            writer.write(_reply(request.split(b" ")[1].decode()))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def visit(self, client: Client, url: str) -> Visit:
        """The result of a visit, and the addresses that were reached."""
        before = len(self.reached)
        try:
            came = str((await client.get(url)).status)
        except FetchError as error:
            came = type(error).__name__
        return {"came": came, "reached": self.reached[before:]}


def _reply(target: str) -> bytes:
    """A redirect if the path requests one, else a feed."""
    if target.startswith("/to/"):
        place = unquote(target.removeprefix("/to/"))
        return answer("302 Found", b"", f"Location: {place}", "Connection: close")
    body = rss("example", ("one", "Body", None))
    return answer("200 OK", body, "Content-Type: application/rss+xml", "Connection: close")


def to(url: str, host: str = "public.example") -> str:
    """A URL that redirects to another."""
    return f"http://{host}/to/{quote(url, safe='')}"


@asynccontextmanager
async def routed_network() -> AsyncIterator[RoutedNetwork]:
    bring_loopback_up()
    for family in ("-4", "-6"):
        subprocess.run(["ip", family, "route", "add", "local", "default", "dev", "lo"], check=True)
    loop = asyncio.get_running_loop()
    transport, names = await loop.create_datagram_endpoint(
        ChangingNames, local_addr=("127.0.0.1", 53)
    )
    here = RoutedNetwork(names)
    ports = [await asyncio.start_server(here.connected, host, 80) for host in ("0.0.0.0", "::")]
    try:
        yield here
    finally:
        for port in ports:
            port.close()
        transport.close()


@asynccontextmanager
async def client(*, guarded: bool) -> AsyncIterator[Client]:
    limits = client_limits(connect_timeout_seconds=5, allow_private_networks=not guarded)
    async with Client(limits) as made:
        yield made


def netloc(address: object) -> str:
    return f"[{address}]" if ":" in str(address) else str(address)


async def ranges(here: RoutedNetwork) -> dict[str, object]:
    """The first and the last address of every range, and those just outside."""
    found: dict[str, object] = {}
    async with client(guarded=True) as guarded, client(guarded=False) as open_:
        for network, _ in REFUSED:
            for address in {ip_network(network)[0], ip_network(network)[-1]}:
                url = f"http://{netloc(address)}/"
                found[str(address)] = {
                    "guarded": await here.visit(guarded, url),
                    "open": await here.visit(open_, url),
                }
        public = {a: await here.visit(guarded, f"http://{netloc(a)}/") for a in PUBLIC + NEIGHBOURS}
    return {"refused": found, "public": public}


async def spellings(here: RoutedNetwork) -> dict[str, object]:
    """Every spelling of one private address: requested directly and as a redirect target."""
    found: dict[str, object] = {}
    async with client(guarded=True) as guarded, client(guarded=False) as open_:
        for host in SPELLINGS:
            url = f"http://{host}/"
            found[host] = {
                "asked": await here.visit(guarded, url),
                "redirected": await here.visit(guarded, to(url)),
                "open": await here.visit(open_, to(url)),
            }
    return found


async def names(here: RoutedNetwork) -> dict[str, object]:
    """Names with private addresses, only or among others, directly or over redirects."""
    found: dict[str, object] = {}
    async with client(guarded=True) as guarded, client(guarded=False) as open_:
        for name in NAMES:
            found[str(name)] = {
                "guarded": await here.visit(guarded, f"http://{name}/"),
                "redirected": await here.visit(guarded, to(f"http://{name}/", "six.example")),
                "open": await here.visit(open_, f"http://{name}/"),
            }
        chain = to(to("http://inside.example/", "six.example"))
        found["chain"] = {
            "guarded": await here.visit(guarded, chain),
            "open": await here.visit(open_, chain),
        }
    return found


async def changing(here: RoutedNetwork) -> list[Visit]:
    """A name that resolves to another address at every lookup."""
    async with client(guarded=True) as guarded:
        visits = [await here.visit(guarded, f"http://{CHANGING}/") for _ in range(6)]
        visits.append(await here.visit(guarded, to(f"http://{CHANGING}/", CHANGING)))
    return visits


async def silence(here: RoutedNetwork) -> dict[str, object]:
    """Names whose server never responds, while another host is visited."""
    clock = asyncio.get_running_loop()
    async with client(guarded=True) as guarded:
        began = clock.time()
        silent = [
            asyncio.create_task(here.visit(guarded, f"http://{name}/")) for name in SILENT_NAMES
        ]
        good = [await here.visit(guarded, "http://public.example/") for _ in range(20)]
        waiting = sum(not task.done() for task in silent)
        came = [visit["came"] for visit in await asyncio.gather(*silent)]
        return {
            "good": [visit["came"] for visit in good],
            "waiting": waiting,
            "came": came,
            "seconds": clock.time() - began,
        }


SOURCES = (
    "http://public.example/feed",
    "http://inside.example/feed",
    "http://mixed.example/feed",
    "http://167772161/feed",
    "http://[::ffff:10.0.0.1]/feed",
    to("http://metadata.example/latest"),
    "http://silent0.example/feed",
)


async def service(here: RoutedNetwork, folder: Path, *, guarded: bool) -> dict[str, object]:
    """The whole program: import and poll a list, and request previews."""
    folder.mkdir()
    program = Headwater(folder, {"fetch": {"allow-private-networks": not guarded}})
    await program.start()
    before = len(here.reached)
    try:
        imported = await send(program.port, "/opml", opml(SOURCES), "text/xml")
        lines = imported[1]["items"]
        outcomes = await asyncio.gather(*(polled_line(program.port, line) for line in lines))
        polled = here.reached[before:]
        previews = [
            (await send(program.port, "/sources/preview", json.dumps({"url": url})))[0]
            for url in SOURCES[1:5]
        ]
    finally:
        await program.stop()
    return {
        "outcomes": dict(zip(SOURCES, outcomes, strict=True)),
        "previews": previews,
        "polled": polled,
        "reached": here.reached[before:],
        "log": program.log,
    }


async def polled_line(port: int, line: dict[str, Any]) -> dict[str, Any]:
    """The outcome of a poll of an imported source; the line itself if it was rejected."""
    if line["outcome"] == "rejected":
        return line
    outcome: dict[str, Any] = (await send(port, f"/sources/{line['sourceId']}/poll"))[1]
    return outcome


def opml(urls: Sequence[str]) -> str:
    outlines = "".join(f'<outline text="x" type="rss" xmlUrl="{url}"/>' for url in urls)
    return f'<opml version="2.0"><body>{outlines}</body></opml>'


async def send(port: int, path: str, body: str = "", kind: str = "application/json") -> Said:
    """Send a POST below the podcast: status and JSON."""
    lines = (
        f"POST /api/users/default/podcasts/default{path} HTTP/1.0",
        f"Host: 127.0.0.1:{port}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write("\r\n".join([*lines, "", body]).encode())
    head, _, said = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), json.loads(said)


async def main(folder: Path) -> None:
    """Run every check once and print the results."""
    async with routed_network() as here:
        report = {
            "ranges": await ranges(here),
            "spellings": await spellings(here),
            "names": await names(here),
            "changing": await changing(here),
            "silence": await silence(here),
            "guarded": await service(here, folder / "guarded", guarded=True),
            "open": await service(here, folder / "open", guarded=False),
        }
    print(json.dumps(report))


def command(folder: Path, way: Sequence[str]) -> list[str]:
    """The command that starts this namespace, with its own list of name servers."""
    servers = folder / "resolv.conf"
    servers.write_text("nameserver 127.0.0.1\n")
    script = f'mount --bind "{servers}" /etc/resolv.conf && exec "$@"'
    program = [sys.executable, "-m", "tests.fetch.routed_namespace", str(folder)]
    return [*way, "--mount", "sh", "-c", script, "sh", *program]


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
