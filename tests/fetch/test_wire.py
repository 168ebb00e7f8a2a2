"""Connections: what comes in crumbs holds nobody up."""

import asyncio
import itertools
import math

import pytest

from headwater.errors import BrokenBody
from headwater.fetch.reading import Bounds
from headwater.fetch.wire import Wire

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CRUMBS = b"1\r\nx\r\n" * 40_000
END = b"0\r\n\r\n"
BOUNDS = Bounds(read_seconds=60, max_body_bytes=5_000_000, max_wire_bytes=9_000_000)


class Line(asyncio.Transport):
    """Nobody is at the other end; knows whether more may come."""

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


async def asked():
    """A connection over which something was asked, its line, and who waits for the answer."""
    wire, line = Wire(BOUNDS, None), Line()
    wire.connection_made(line)
    over_at = asyncio.get_running_loop().time() + 60
    asking = asyncio.create_task(wire.ask(b"?", shaken_by=math.inf, over_at=over_at))
    await asyncio.sleep(0)
    return wire, line, asking


async def test_h2_a_body_in_crumbs_is_read_in_many_turns():
    wire, line, asking = await asked()
    sizes = [0]
    wire.data_received(HEAD + CRUMBS + END)
    while not asking.done():
        sizes.append(wire.size)
        assert line.reads is not bool(wire._unread)
        await asyncio.sleep(0)
    assert max(after - before for before, after in itertools.pairwise(sizes[1:])) <= 1000
    assert sizes[1] <= 11_000
    assert len(sizes) > 40
    assert wire.take_body() == b"x" * 40_000
    assert line.reads
    assert wire.is_reusable


async def test_a_body_in_large_pieces_is_read_at_once():
    wire, _, asking = await asked()
    wire.data_received(HEAD + b"10000\r\n" + b"x" * 0x10000 + b"\r\n" + END)
    assert wire.is_complete
    await asking
    assert wire.size == 0x10000


@pytest.mark.parametrize("end", [END, b""])
async def test_n10_what_came_before_a_connection_was_lost_is_read(end):
    wire, _, asking = await asked()
    wire.data_received(HEAD + CRUMBS + end)
    wire.connection_lost(None)
    if end:
        await asking
        assert wire.size == 40_000
        return
    with pytest.raises(BrokenBody):
        await asking


@pytest.mark.parametrize("crumbs", [b"1\r\nx\r\n", CRUMBS])
async def test_n11_who_says_more_than_was_asked_for_is_not_believed(crumbs):
    wire, line, asking = await asked()
    wire.data_received(HEAD + crumbs + END + b"HTTP/1.1 200 OK\r\n\r\n" * 1000)
    with pytest.raises(BrokenBody):
        await asking
    assert not line.is_open


@pytest.mark.parametrize("length", [1_048_577, 1_060_000])
async def test_h1_a_large_body_that_comes_whole_asks_for_no_leave(length):
    wire, line, asking = await asked()
    wire.data_received(HEAD + b"%x\r\n" % length + b"y" * length + b"\r\n" + END)
    await asking
    assert (wire.size, wire.is_complete, wire.is_waiting, line.reads) == (length, True, False, True)


async def test_h1_a_body_in_crumbs_still_needs_leave_to_grow_large():
    wire, line, asking = await asked()
    wire.data_received(HEAD + b"%x\r\n" % 1_048_500 + b"y" * 1_048_500 + b"\r\n" + CRUMBS)
    while wire._unread:
        await asyncio.sleep(0)
    await asking
    assert wire.is_waiting
    assert not line.reads
    growing = asyncio.create_task(wire.grow())
    await asyncio.sleep(0)
    assert line.reads
    wire.data_received(END)
    await growing
    assert wire.size == 1_088_500
