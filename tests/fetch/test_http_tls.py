"""TLS is verified, always (N14)."""

import asyncio
import datetime as dt
import ipaddress
import os
import socket
import ssl
import warnings
from contextlib import suppress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from headwater.errors import BrokenBody, ConnectFailed, LeaseLost, TimedOut, TlsFailed
from headwater.fetch.net import tls as tls_module
from headwater.fetch.net.dns import SystemResolver
from tests.fetch.loopback_servers import VisitRecorder, answer, name_server, serving, visitor

TODAY = dt.datetime.now(dt.UTC)


def a_certificate(names, *, issuer=None, expired=False):
    """A key and a certificate, signed by `issuer` or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0] if names else "CA")])
    start = TODAY - dt.timedelta(days=10)
    end = TODAY + dt.timedelta(days=-5 if expired else 5)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer[1].subject if issuer else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=not names, path_length=None), critical=True)
    )
    if names:
        alternatives = [
            x509.IPAddress(ipaddress.ip_address(n)) if n[0].isdigit() else x509.DNSName(n)
            for n in names
        ]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return key, builder.sign(issuer[0] if issuer else key, hashes.SHA256())


def server_context(folder, key, certificate):
    pem = folder / "server.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    pem.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context


@pytest.fixture(scope="module")
def authority():
    return a_certificate([])


@pytest.fixture
def trusting(authority):
    context = ssl.create_default_context()
    context.load_verify_locations(
        cadata=authority[1].public_bytes(serialization.Encoding.PEM).decode()
    )
    return context


async def test_n14_a_verified_server_is_visited(tmp_path, authority, trusting):
    tls = server_context(tmp_path, *a_certificate(["127.0.0.1"], issuer=authority))
    async with serving(answer("200 OK", b"x" * 100_000), tls=tls) as server:
        async with visitor(tls=trusting) as client:
            for _ in range(2):
                response = await client.get(server.url())
        assert response.size == 100_000
        assert server.connections == 1


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        ({"names": ["127.0.0.1"], "expired": True}, "expired"),
        ({"names": ["127.0.0.9"]}, "mismatch"),
        ({"names": ["127.0.0.1"], "unknown": True}, "self-signed|self signed|unable to get"),
    ],
    ids=["expired", "another's", "unknown issuer"],
)
async def test_n14_a_certificate_that_is_not_valid_fails(
    tmp_path, authority, trusting, certificate, reason
):
    issuer = None if certificate.pop("unknown", False) else authority
    tls = server_context(tmp_path, *a_certificate(**certificate, issuer=issuer))
    async with serving(tls=tls) as server:
        async with visitor(tls=trusting) as client:
            with pytest.raises(TlsFailed, match=reason) as caught:
                await client.get(server.url())
        assert "\n" not in str(caught.value)
        assert server.requests == []


async def test_n14_the_name_is_verified_not_the_address(tmp_path, authority, trusting):
    tls = server_context(tmp_path, *a_certificate(["news.test"], issuer=authority))
    async with (
        name_server({"news.test": ["127.0.0.1"], "other.test": ["127.0.0.1"]}) as dns,
        SystemResolver(nameservers=[dns.address]) as names,
        serving(answer("200 OK", b"hello"), tls=tls) as server,
        visitor(names=names, tls=trusting) as client,
    ):
        assert (await client.get(f"https://news.test:{server.port}/")).body == b"hello"
        with pytest.raises(TlsFailed, match="mismatch"):
            await client.get(f"https://other.test:{server.port}/")


async def test_n14_there_is_no_way_around_verification_by_default(tmp_path, authority):
    tls = server_context(tmp_path, *a_certificate(["127.0.0.1"], issuer=authority))
    async with serving(tls=tls) as server, visitor() as client:
        with pytest.raises(TlsFailed):
            await client.get(server.url())


async def test_n7_a_missing_tls_close_notify_is_not_awaited(tmp_path, authority, trusting):
    async def half(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        await reader.read()

    tls = server_context(tmp_path, *a_certificate(["127.0.0.1"], issuer=authority))
    limits = {"connect_timeout_seconds": 60, "read_timeout_seconds": 0.1}
    async with serving(half, tls=tls) as server, visitor(tls=trusting, **limits) as client:
        with pytest.raises(TimedOut):
            async with asyncio.timeout(30):  # the timeout of the handshake is over
                await client.get(server.url())
        await server.settled()


async def test_n14_a_verified_host_resumes_its_session(tmp_path, authority, trusting):
    resumed = []

    async def noting(reader, writer):
        resumed.append(writer.get_extra_info("ssl_object").session_reused)
        writer.write(answer("200 OK", b"hello", "Connection: close"))
        await writer.drain()

    tls = server_context(tmp_path, *a_certificate(["127.0.0.1"], issuer=authority))
    async with serving(noting, tls=tls) as server, visitor(tls=trusting) as client:
        for _ in range(3):
            assert (await client.get(server.url())).body == b"hello"
    assert resumed == [False, True, True]


async def test_n14_a_session_of_one_host_is_not_used_for_another(tmp_path, authority, trusting):
    tls = server_context(tmp_path, *a_certificate(["one.test"], issuer=authority))
    async with (
        name_server({"one.test": ["127.0.0.1"], "two.test": ["127.0.0.1"]}) as dns,
        SystemResolver(nameservers=[dns.address]) as names,
        serving(answer("200 OK", b"", "Connection: close"), tls=tls) as server,
        visitor(names=names, tls=trusting) as client,
    ):
        for _ in range(2):
            await client.get(f"https://one.test:{server.port}/")
            with pytest.raises(TlsFailed, match="mismatch"):
                await client.get(f"https://two.test:{server.port}/")


async def test_n14_a_session_that_the_server_forgot_is_no_failure(tmp_path, authority, trusting):
    certificate = a_certificate(["127.0.0.1"], issuer=authority)
    closing = answer("200 OK", b"hello", "Connection: close")
    async with visitor(tls=trusting) as client:
        tls = server_context(tmp_path, *certificate)
        async with serving(closing, tls=tls) as server:
            await client.get(server.url())
            port = server.port
        tls = server_context(tmp_path, *certificate)  # with other keys for its tickets
        async with serving(closing, tls=tls, port=port) as server:
            assert (await client.get(server.url())).body == b"hello"


@pytest.mark.parametrize(
    ("named", "host", "is_right"),
    [
        ("*.example.test", "news.example.test", True),
        ("*.example.test", "example.test", False),
        ("*.example.test", "a.b.example.test", False),
        ("n*.example.test", "news.example.test", False),
        ("NEWS.example.test", "news.example.test", True),
        ("example.test", "news.example.test", False),
    ],
)
async def test_n14_a_certificate_is_valid_for_its_names_only(
    tmp_path, authority, trusting, named, host, is_right
):
    tls = server_context(tmp_path, *a_certificate([named], issuer=authority))
    async with (
        name_server({host: ["127.0.0.1"]}) as dns,
        SystemResolver(nameservers=[dns.address]) as names,
        serving(tls=tls) as server,
        visitor(names=names, tls=trusting) as client,
    ):
        if is_right:
            assert (await client.get(f"https://{host}:{server.port}/")).status == 200
        else:
            with pytest.raises(TlsFailed, match="mismatch"):
                await client.get(f"https://{host}:{server.port}/")


async def test_n14_old_versions_of_tls_are_refused(tmp_path, authority, trusting):
    tls = server_context(tmp_path, *a_certificate(["127.0.0.1"], issuer=authority))
    tls.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        tls.minimum_version = tls.maximum_version = ssl.TLSVersion.TLSv1_1
    async with serving(tls=tls) as server, visitor(tls=trusting) as client:
        with pytest.raises(ConnectFailed, match="closed during the TLS handshake"):
            await client.get(server.url())
        assert server.requests == []


async def test_n14_a_tunnel_through_a_proxy_is_verified_too(tmp_path, authority, trusting):
    tls = server_context(tmp_path, *a_certificate(["127.0.0.1"], issuer=authority))

    async with serving(answer("200 OK", b"hello"), tls=tls) as server:

        async def tunnel(reader, writer):
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

            async def pump(source, sink):
                while data := await source.read(65536):
                    sink.write(data)

            try:
                await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))
            finally:
                inner_writer.transport.abort()

        async with (
            serving(tunnel) as proxy,
            visitor(tls=trusting, proxy=proxy.origin) as client,
        ):
            for _ in range(2):
                assert (await client.get(server.url())).body == b"hello"
            assert (server.connections, proxy.connections) == (1, 1)
            with pytest.raises(TlsFailed, match="mismatch"):
                await client.get(server.url().replace("127.0.0.1", "127.0.0.2"))


def test_n14_the_number_of_cached_sessions_is_limited():
    context = tls_module.TlsContext(max_sessions=2)
    for host in ("a", "b", "a", "c", "d"):
        context.save_session(host, 443, host.encode() if host != "d" else b"")
    assert context.session("a", 443) == b"a"
    assert context.session("b", 443) is None
    assert context.session("d", 443) is None


def tls_12(tmp_path, authority):
    context = server_context(tmp_path, *a_certificate(["127.0.0.1"], issuer=authority))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


async def test_n10_a_body_without_length_is_complete_only_after_close_notify(
    tmp_path, authority, trusting
):
    async def cut(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n<rss>part")
        await writer.drain()
        sock = writer.get_extra_info("socket")
        await asyncio.sleep(0.05)
        sock_shutdown(sock)
        await reader.read()

    async def sent(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n<rss>whole</rss>")
        await writer.drain()
        writer.close()

    tls = server_context(tmp_path, *a_certificate(["127.0.0.1"], issuer=authority))
    async with visitor(tls=trusting) as client:
        async with serving(cut, tls=tls) as server:
            with pytest.raises(BrokenBody, match="cut short"):
                await client.get(server.url())
        async with serving(sent, tls=tls) as server:
            assert (await client.get(server.url())).body == b"<rss>whole</rss>"


@pytest.mark.parametrize("looks", range(2))
async def test_k8_a_request_is_not_sent_after_the_handshake_if_the_lock_is_lost(
    tmp_path, authority, trusting, looks, monkeypatch
):
    def encrypt(self, data):
        encrypted.append(data)
        return real(self, data)

    encrypted: list[bytes] = []
    real = tls_module.TlsChannel.encrypt
    monkeypatch.setattr(tls_module.TlsChannel, "encrypt", encrypt)
    recorder = VisitRecorder()
    recorder.checks_left = looks
    tls = server_context(tmp_path, *a_certificate(["127.0.0.1"], issuer=authority))
    async with serving(answer(), tls=tls) as server, visitor(tls=trusting) as client:
        with pytest.raises(LeaseLost):
            await client.get(server.url(), visit=recorder)
        assert encrypted == []
        recorder.checks_left = 2
        assert (await client.get(server.url(), visit=recorder)).status == 200
        assert len(encrypted) == len(server.requests) == 1


def sock_shutdown(sock):
    """End a connection below TLS, without close_notify."""
    with socket.socket(fileno=os.dup(sock.fileno())) as own:
        own.shutdown(socket.SHUT_WR)


async def test_h1_bytes_after_close_notify_are_not_buffered(tmp_path, authority, trusting):
    async def farewell(reader, writer):
        """Send close_notify, and then more bytes."""
        raw = writer.get_extra_info("socket")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await writer.drain()
        with socket.socket(fileno=os.dup(raw.fileno())) as own, suppress(OSError):
            own.setblocking(False)
            writer.transport.close()  # sends close_notify
            await asyncio.sleep(0.05)
            for _ in range(10_000):
                await asyncio.get_running_loop().sock_sendall(own, b"\x17\x03\x03\x40\x00" * 1000)

    tls = server_context(tmp_path, *a_certificate(["127.0.0.1"], issuer=authority))
    async with serving(farewell, tls=tls) as server, visitor(tls=trusting) as client:
        with pytest.raises(BrokenBody, match="cut short"):
            await client.get(server.url())
        assert not client.connector.busy


async def test_h2_the_server_cannot_choose_the_dh_modulus(tmp_path, authority, trusting):
    tls = tls_12(tmp_path, authority)
    tls.set_ciphers("DHE")
    async with serving(tls=tls) as server, visitor(tls=trusting) as client:
        with pytest.raises((TlsFailed, ConnectFailed)):
            await client.get(server.url())


async def test_n7_a_slow_handshake_ends_at_the_connect_timeout():
    async def dripping(reader, writer):
        await reader.read(1)
        while True:
            writer.write(b"\x16\x03\x03\x40\x00"[:1])
            await writer.drain()
            await asyncio.sleep(0.02)

    async def converse(reader, writer):
        await dripping(reader, writer)

    limits = {"connect_timeout_seconds": 0.3, "total_timeout_seconds": 30}
    async with serving() as server, visitor(**limits) as client:
        server.converse = converse
        with pytest.raises((TimedOut, TlsFailed)) as caught:
            await client.get(server.url().replace("http:", "https:"))
        assert "30 s" not in str(caught.value)


async def test_n14_a_long_chain_is_not_kept_in_memory(tmp_path, authority, trusting):
    context = server_context(tmp_path, *a_certificate(["127.0.0.1"], issuer=authority))
    async with serving(tls=context) as server, visitor(tls=trusting) as client:
        await client.get(server.url())
        client.connector.close()
        kept = client.connector.tls_context.session("127.0.0.1", server.port)
        assert 0 < len(kept) <= tls_module.MAX_SESSION_BYTES


def test_n14_a_session_loses_its_certificate_only():
    first, certificate, last = b"\x02\x01\x01", b"\xa3\x81\x80" + bytes(128), b"\xaa\x02ab"
    whole = first + certificate + last
    session = b"\x30\x81" + bytes([len(whole)]) + whole
    rest = first + last
    assert tls_module.without_certificate(session) == b"\x30\x82\x00\x07" + rest
    for odd in (session[:-1], session + b"x", b"\x31" + session[1:], b"\x30", b"?"):
        assert tls_module.without_certificate(odd) == odd
