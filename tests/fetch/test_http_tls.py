"""TLS is verified, always (N14)."""

import asyncio
import datetime as dt
import ipaddress
import ssl
import warnings

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from OpenSSL import SSL

from headwater.errors import ConnectFailed, TimedOut, TlsFailed
from headwater.fetch import tls as tls_module
from headwater.fetch.names import SystemNames
from tests.fetch.loopback import answer, name_server, serving, visitor

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
        SystemNames(nameservers=[dns.address]) as names,
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


async def test_n7_a_tls_server_that_never_says_goodbye_is_not_waited_for(
    tmp_path, authority, trusting
):
    async def half(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        await reader.read()

    tls = server_context(tmp_path, *a_certificate(["127.0.0.1"], issuer=authority))
    async with (
        serving(half, tls=tls) as server,
        visitor(tls=trusting, read_timeout_seconds=0.1) as client,
    ):
        with pytest.raises(TimedOut):
            await client.get(server.url())
        await server.settled()


async def test_n14_a_host_that_was_verified_is_greeted_again_in_short(
    tmp_path, authority, trusting
):
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


async def test_n14_what_is_remembered_of_one_host_is_of_no_use_for_another(
    tmp_path, authority, trusting
):
    tls = server_context(tmp_path, *a_certificate(["one.test"], issuer=authority))
    async with (
        name_server({"one.test": ["127.0.0.1"], "two.test": ["127.0.0.1"]}) as dns,
        SystemNames(nameservers=[dns.address]) as names,
        serving(answer("200 OK", b"", "Connection: close"), tls=tls) as server,
        visitor(names=names, tls=trusting) as client,
    ):
        for _ in range(2):
            await client.get(f"https://one.test:{server.port}/")
            with pytest.raises(TlsFailed, match="mismatch"):
                await client.get(f"https://two.test:{server.port}/")


async def test_n14_a_remembered_session_that_the_server_forgot_is_no_failure(
    tmp_path, authority, trusting
):
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
async def test_n14_a_certificate_is_for_the_names_in_it(
    tmp_path, authority, trusting, named, host, is_right
):
    tls = server_context(tmp_path, *a_certificate([named], issuer=authority))
    async with (
        name_server({host: ["127.0.0.1"]}) as dns,
        SystemNames(nameservers=[dns.address]) as names,
        serving(tls=tls) as server,
        visitor(names=names, tls=trusting) as client,
    ):
        if is_right:
            assert (await client.get(f"https://{host}:{server.port}/")).status == 200
        else:
            with pytest.raises(TlsFailed, match="mismatch"):
                await client.get(f"https://{host}:{server.port}/")


async def test_n14_old_versions_of_tls_are_not_spoken(tmp_path, authority, trusting):
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


def test_n14_only_so_many_sessions_are_remembered(monkeypatch):
    monkeypatch.setattr(tls_module, "_MAX_SESSIONS", 2)
    trust = tls_module.Trust()
    session = SSL.Session()
    for host in ("a", "b", "a", "c"):
        trust.remember(host, 443, session)
    assert trust.session("a", 443) is session
    assert trust.session("b", 443) is None
