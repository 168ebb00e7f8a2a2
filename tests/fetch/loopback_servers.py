"""Real servers on loopback for network tests: HTTP byte by byte, and DNS."""

import asyncio
import struct
from contextlib import asynccontextmanager
from ipaddress import ip_address, ip_network
from math import inf

from headwater.errors import LeaseLost, OnHold
from headwater.fetch.net.http_client import Client
from headwater.model import EPOCH
from tests.factories import client_limits

NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED = range(6)
A, AAAA = 1, 28
SILENT = "silent"
LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
USER_AGENT = "Headwater/1 (+https://example.org/bot)"


def answer(status="200 OK", body=b"", *headers):
    """A complete HTTP response with its length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + body


def redirect(location, status="302 Found"):
    return answer(status, b"", f"Location: {location}")


class Server:
    """Sends its responses in order and repeats the last one.

    A response that is a coroutine function takes over the connection.
    """

    def __init__(self, answers):
        self.answers = list(answers)
        self.requests = []
        self.connections = 0
        self.tasks = set()
        self.is_over = False
        self.origin = self.host = ""
        self.port = 0

    def url(self, path="/feed"):
        return f"{self.origin}{path}"

    @property
    def paths(self):
        return [request.split()[1].decode() for request in self.requests]

    def sent(self, name, index=-1):
        """A header of a request, or None."""
        for line in self.requests[index].split(b"\r\n")[1:]:
            key, _, value = line.partition(b": ")
            if key.decode().lower() == name.lower():
                return value.decode()
        return None

    async def settled(self):
        """Wait until all connections are closed."""
        while self.tasks:
            await asyncio.sleep(0)

    async def connected(self, reader, writer):
        self.connections += 1
        self.tasks.add(asyncio.current_task())
        try:
            await self.converse(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # cancels handlers that still run when the test is over
        finally:
            self.tasks.discard(asyncio.current_task())
            writer.transport.abort() if self.is_over else writer.close()

    async def converse(self, reader, writer):
        while True:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            reply = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if not isinstance(reply, bytes):
                await reply(reader, writer)
                return
            writer.write(reply)
            await writer.drain()
            if b"connection: close" in reply.partition(b"\r\n\r\n")[0].lower():
                return


@asynccontextmanager
async def serving(*answers, host="127.0.0.1", port=0, tls=None, name=None):
    server = Server(answers or [answer()])
    listener = await asyncio.start_server(server.connected, host, port, ssl=tls, limit=1 << 20)
    server.host = host
    server.port = listener.sockets[0].getsockname()[1]
    server.origin = f"{'https' if tls else 'http'}://{name or host}:{server.port}"
    try:
        yield server
    finally:
        listener.close()
        server.is_over = True
        for task in server.tasks:
            task.cancel()
        await asyncio.gather(*server.tasks)


@asynccontextmanager
async def visitor(*, names=None, tls=None, **limits):
    """A client that may visit loopback by default; other private addresses are refused."""
    given = {"user_agent": USER_AGENT, "allow_private_networks": LOOPBACK} | limits
    async with Client(client_limits(**given), names=names, tls=tls) as client:
        yield client


async def visit(*answers, headers=None, path="/feed", **limits):
    """The response to one visit of a server that sends these responses."""
    async with serving(*answers) as server, visitor(**limits) as client:
        return await client.get(server.url(path), headers=headers or {})


class VisitRecorder:
    """A visit that records redirects; a host can be busy, or on hold."""

    def __init__(self, *, busy=(), held=(), wait_seconds=0.0):
        self.visits = []
        self.busy = busy
        self.held = held
        self.wait_seconds = wait_seconds
        self.checks_left = inf

    def check(self):
        self.checks_left -= 1
        if self.checks_left < 0:
            raise LeaseLost("another worker has it")

    @asynccontextmanager
    async def redirect_to(self, host):
        if host in self.held:
            raise OnHold(EPOCH, "asked for it")
        if host in self.busy:
            await asyncio.Event().wait()
        await asyncio.sleep(self.wait_seconds)
        self.visits.append(f"enter {host}")
        try:
            yield
        finally:
            self.visits.append(f"leave {host}")


class NameServer(asyncio.DatagramProtocol):
    """Responds from a table of (name, type) or name -> code, addresses or no response."""

    def __init__(self, table, ttl_seconds=0):
        self.table = table
        self.ttl_seconds = ttl_seconds
        self.asked = []
        self.address = ""

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, sender):
        name, kind, question = self.question(data)
        self.asked.append((name, kind))
        reply = self.table.get((name, kind), self.table.get(name, NXDOMAIN))
        if reply == SILENT:
            return
        code = reply if isinstance(reply, int) else NOERROR
        records = [] if isinstance(reply, int) else self.records(reply, kind)
        head = data[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(records), 0, 0)
        self.transport.sendto(head + question + b"".join(records), sender)

    @staticmethod
    def question(data):
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode())
            at += 1 + data[at]
        kind = struct.unpack(">H", data[at + 1 : at + 3])[0]
        return ".".join(labels).lower(), kind, data[12 : at + 5]

    def records(self, addresses, kind):
        packed = [ip_address(address).packed for address in addresses]
        size = 4 if kind == A else 16
        return [
            struct.pack(">HHHIH", 0xC00C, kind, 1, self.ttl_seconds, size) + one
            for one in packed
            if len(one) == size
        ]


@asynccontextmanager
async def name_server(table, ttl_seconds=0):
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(
        lambda: NameServer(table, ttl_seconds), local_addr=("127.0.0.1", 0)
    )
    server.address = "127.0.0.1:{}".format(transport.get_extra_info("sockname")[1])
    try:
        yield server
    finally:
        transport.close()
