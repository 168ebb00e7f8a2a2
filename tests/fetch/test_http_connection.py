"""HttpConnection: a body of many small chunks does not block the event loop."""

import asyncio
import itertools
import math
from typing import cast

import pytest

from headwater.errors import BrokenBody
from headwater.fetch.net.http_connection import Deadlines, HttpConnection
from headwater.fetch.net.tls import TlsChannel
from tests.factories import client_limits
from tests.fakes import in_virtual_time

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SMALL_CHUNKS = b"1\r\nx\r\n" * 40_000
END = b"0\r\n\r\n"
LIMITS = client_limits(read_timeout_seconds=60, max_body_bytes=5_000_000)


class FakeTransport(asyncio.Transport):
    """Sends nothing; records whether it is open and reading."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = self.reads = True

    def write(self, data: object) -> None:
        """Send nothing."""

    def abort(self) -> None:
        self.is_open = False

    def is_closing(self) -> bool:
        return not self.is_open

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


async def requested():
    """A connection with a request under way, its transport, and the task that waits for it."""
    connection, transport = HttpConnection(LIMITS, None), FakeTransport()
    connection.connection_made(transport)
    over_at = asyncio.get_running_loop().time() + 60
    sending = asyncio.create_task(connection.send(b"?", Deadlines(math.inf, over_at)))
    await asyncio.sleep(0)
    return connection, transport, sending


async def test_h2_a_body_of_small_chunks_is_parsed_over_many_loop_iterations():
    connection, transport, sending = await requested()
    sizes = [0]
    connection.data_received(HEAD + SMALL_CHUNKS + END)
    while not sending.done():
        sizes.append(connection.response.size)
        assert transport.reads is not bool(connection.unparsed)
        await asyncio.sleep(0)
    assert max(after - before for before, after in itertools.pairwise(sizes[1:])) <= 1000
    assert sizes[1] <= 11_000
    assert len(sizes) > 40
    assert connection.response.take_body() == b"x" * 40_000
    assert transport.reads
    assert connection.is_reusable


async def test_a_body_in_large_pieces_is_parsed_at_once():
    connection, _, sending = await requested()
    connection.data_received(HEAD + b"10000\r\n" + b"x" * 0x10000 + b"\r\n" + END)
    assert connection.response.is_complete
    assert (await sending).size == 0x10000


def test_n9_the_body_of_an_error_is_waited_for_5_seconds_whatever_the_read_timeout():
    async def received() -> tuple[float, int | None]:
        connection, _, sending = await requested()
        started = asyncio.get_running_loop().time()
        connection.data_received(b"HTTP/1.1 404 Not Found\r\nContent-Length: 100\r\n\r\nsome")
        response = await sending
        return asyncio.get_running_loop().time() - started, response.status

    assert in_virtual_time(received) == (5, 404)


@pytest.mark.parametrize("end", [END, b""])
async def test_n10_bytes_received_before_a_connection_was_lost_are_parsed(end):
    connection, _, sending = await requested()
    connection.data_received(HEAD + SMALL_CHUNKS + end)
    connection.connection_lost(None)
    if end:
        assert (await sending).size == 40_000
        return
    with pytest.raises(BrokenBody):
        await sending


@pytest.mark.parametrize("chunks", [b"1\r\nx\r\n", SMALL_CHUNKS])
async def test_n11_bytes_after_a_response_in_the_same_packet_are_dropped(chunks):
    connection, _, sending = await requested()
    connection.data_received(HEAD + chunks + END + b"HTTP/1.1 200 OK\r\n\r\n" * 1000)
    response = await sending
    assert response.is_complete
    assert len(response.take_body()) == chunks.count(b"\r\n") // 2
    assert not connection.is_reusable


async def test_n11_bytes_that_follow_before_the_response_is_read_leave_it_alone():
    connection, transport, sending = await requested()
    connection.data_received(HEAD + b"1\r\nx\r\n" + END)
    connection.data_received(b"HTTP/1.1 200 OK\r\n\r\n")  # before its caller could resume
    response = await sending
    assert response.take_body() == b"x"
    assert not transport.is_open
    assert not connection.is_reusable


@pytest.mark.parametrize("length", [1_048_577, 1_060_000])
async def test_h1_a_large_body_that_arrives_complete_needs_no_permit(length):
    connection, transport, sending = await requested()
    connection.data_received(HEAD + b"%x\r\n" % length + b"y" * length + b"\r\n" + END)
    response = await sending
    assert (response.size, response.is_complete) == (length, True)
    assert (connection.needs_permit, transport.reads) == (False, True)


async def test_h1_a_large_body_of_small_chunks_needs_a_permit():
    connection, transport, sending = await requested()
    large = b"%x\r\n" % 1_048_500 + b"y" * 1_048_500 + b"\r\n"
    connection.data_received(HEAD + large + SMALL_CHUNKS)
    while connection.unparsed:
        await asyncio.sleep(0)
    response = await sending
    assert connection.needs_permit
    assert not transport.reads
    reading = asyncio.create_task(connection.read_large_body())
    await asyncio.sleep(0)
    assert transport.reads
    connection.data_received(END)
    await reading
    assert response.size == 1_088_500


async def test_f1_a_tunnel_that_closes_before_tls_starts_is_a_lost_connection():
    connection, _, sending = await requested()
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert (await sending).is_success
    connection.connection_lost(None)
    with pytest.raises(ConnectionError, match="tunnel"):
        connection.start_tls(cast(TlsChannel, None))
