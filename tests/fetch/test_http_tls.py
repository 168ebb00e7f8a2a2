"""TLS is verified, always (N14)."""

import datetime as dt
import ipaddress
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from headwater.errors import TimedOut, TlsFailed
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
