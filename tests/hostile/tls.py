"""TLS hosts with invalid certificates or a misbehaving TLS layer."""

import os
import socket
from pathlib import Path

from OpenSSL import SSL

from tests.hostile.documents import GOOD, good, item, rss
from tests.hostile.exchange import Exchange, answer, head, redirect
from tests.hostile.sizes import TOO_LARGE, read_little
from tests.hostile.table import Failed, Misbehaviour, ObservedRequests, Outcome, Stored, Talk, row
from tests.hostile.transport import BROKEN, LATE, NO_HTTP, after, closing, say_nothing, then_silent

FEED = rss(good())
KEPT = Stored(1, (GOOD,))
DISTRUST = Failed("TLS")
PASSWORD = "p4ss-behind-tls"


def tls(name: str, ids: str, talk: Talk, *outcomes: Outcome, **more: object) -> Misbehaviour:
    """A row whose host uses TLS."""
    options: dict[str, object] = {"listens": "tls", "url": "{secure}/feed"}
    return row(name, ids, talk, *outcomes, **(options | more))


async def alert(ex: Exchange) -> None:
    await ex.reader.read(1)
    await ex.send(b"\x15\x03\x03\x00\x02\x02\x28")


async def cut_without_goodbye(ex: Exchange) -> None:
    """A body without a length that ends with the connection, but without close_notify."""
    await ex.send(closing(body=FEED))
    with _below(ex) as raw:
        raw.shutdown(socket.SHUT_WR)
    await ex.silence()


async def junk_below(ex: Exchange) -> None:
    """Bytes between the TLS records that belong to none."""
    await ex.send(head(f"Content-Length: {len(FEED)}") + FEED[:50])
    with _below(ex) as raw:
        raw.send(b"\x17\x03\x03\x00\x40" + bytes(range(64)))
    await ex.silence()


async def byte_by_byte(ex: Exchange) -> None:
    """A record for every byte."""
    for at in range(len(FEED)):
        await ex.send(FEED[at : at + 1] if at else answer(FEED)[: -len(FEED) + 1])


async def renegotiate(ex: Exchange) -> None:
    """Request another handshake in the middle of the response."""
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_max_proto_version(SSL.TLS1_2_VERSION)
    context.use_certificate_file(Path(ex.pem))
    context.use_privatekey_file(Path(ex.pem))
    connection = SSL.Connection(context, None)
    connection.set_accept_state()
    while True:
        connection.bio_write(await ex.reader.read(65536))
        try:
            connection.recv(65536)
            break
        except SSL.WantReadError:
            await ex.send(_outgoing(connection))
    connection.send(head(f"Content-Length: {len(FEED)}") + FEED[:50])
    connection.renegotiate()
    try:
        connection.do_handshake()
    except SSL.WantReadError:
        await ex.send(_outgoing(connection))
    await ex.silence()


def _outgoing(connection: SSL.Connection) -> bytes:
    try:
        return connection.bio_read(1 << 20)
    except SSL.WantReadError:
        return b""


def _below(ex: Exchange) -> socket.socket:
    """The connection below TLS."""
    return socket.socket(fileno=os.dup(ex.writer.get_extra_info("socket").fileno()))


def asked_nothing(sight: ObservedRequests) -> bool:
    """No request is sent to an untrusted host."""
    return not sight.requests


def no_password(sight: ObservedRequests) -> bool:
    """The other host was requested without credentials."""
    return len(sight.elsewhere) == 1 and "authorization" not in sight.elsewhere[0].lower()


def twice(ex: Exchange) -> bytes:
    """Another response at every visit, each on a new connection."""
    return closing(body=rss(item(f"Answer {ex.number}", f"Body {ex.number}")))


ROWS = (
    tls("tls as it should be", "N14", answer(FEED), KEPT),
    tls("tls, greeted again in short", "N14", twice,
        Stored(1, ({"title": "Answer 1"},)), Stored(1, ({"title": "Answer 2"},))),
    tls("tls 1.2", "N14", answer(FEED), KEPT, listens="tls 1.2"),
    tls("tls 1.1", "N14 F1", answer(FEED), Failed("TLS|connection"), listens="tls 1.1",
        sight=asked_nothing),
    tls("self-signed certificate", "N14 F1", answer(FEED), DISTRUST, listens="tls, self-signed",
        sight=asked_nothing),
    tls("expired certificate", "N14 F1", answer(FEED), Failed("TLS", says="expired"),
        listens="tls, expired", sight=asked_nothing),
    tls("another's certificate", "N14 F1", answer(FEED), DISTRUST, listens="tls, another's",
        sight=asked_nothing),
    tls("certificate of an unknown issuer", "N14 F1", answer(FEED), DISTRUST,
        listens="tls, unknown issuer", sight=asked_nothing),
    tls("chain of 400 certificates", "N7 N14", answer(FEED), DISTRUST, listens="tls, long chain",
        sight=asked_nothing),
    tls("wants a certificate of ours", "N14 F1", answer(FEED), Failed("TLS|connection"),
        listens="tls, curious", sight=asked_nothing),
    tls("no tls behind https", "N14 F1", answer(FEED), DISTRUST, listens="http", at_accept=True),
    tls("tls alert at hello", "N14 F1", alert, DISTRUST, listens="http", at_accept=True),
    tls("tls handshake never ends", "N7 N14", say_nothing, LATE, listens="http", at_accept=True),
    tls("tls handshake drips", "N7 N14", after(b"\x16\x03\x03\x40\x00", b"\0", 0.2), LATE,
        listens="http", at_accept=True),
    tls("renegotiates", "N7 N14", renegotiate, Failed("timeout|TLS|connection|broken body"),
        listens="bare", at_accept=True),
    tls("tls cut without a goodbye", "N10", cut_without_goodbye, BROKEN),
    tls("goodbye in the middle", "N10", closing(f"Content-Length: {len(FEED) + 9}", body=FEED),
        BROKEN),
    tls("junk between records", "N10 N14", junk_below, Failed("TLS|connection|broken body")),
    tls("silence behind tls", "N7", then_silent(head("Content-Length: 9000") + b"x"), LATE),
    tls("drips behind tls", "N7", after(head("Content-Length: 9000"), b"x", 0.3), LATE),
    tls("a record for every byte", "N7 H2", byte_by_byte, KEPT),
    tls("far too much behind tls", "N7 H1", after(closing(), b" " * 65536, 0.001, 500), TOO_LARGE,
        heavy=True, sight=read_little),
    tls("password on the way from https to http", "N6 U6", lambda ex: answer(FEED)
        if ex.is_elsewhere else redirect(f"{ex.other}/feed"), KEPT, elsewhere=True,
        url=f"https://me:{PASSWORD}@{{netloc}}/feed", sight=no_password, secrets=(PASSWORD,)),
    row("redirect to https without tls", "N5 N14", lambda ex: redirect(
        f"{ex.other.replace('http:', 'https:')}/feed"), LATE, elsewhere=True),
    row("tls on an http url", "F1", answer(FEED), NO_HTTP, listens="tls, self-signed"),
)  # fmt: skip
