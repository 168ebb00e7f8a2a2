"""A test authority, and certificates that are valid, invalid or unsigned."""

import datetime as dt
import ipaddress
import ssl
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_SOMEBODY = "127.17.255.77"  # an address that is never visited
_LONG_CHAIN = 400  # certificates: more bytes than a client accepts


@dataclass(frozen=True)
class Signed:
    """A key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        """The certificate alone."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def secret(self) -> bytes:
        """The key alone."""
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )


def signed(host: str | None, issuer: Signed | None, *, expired: bool = False) -> Signed:
    """A certificate for an address, or of an authority; self-signed without an issuer."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host or "An authority")])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer.certificate.subject if issuer else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=10))
        .not_valid_after(now + dt.timedelta(days=-5 if expired else 5))
        .add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
    )
    if host is not None:
        address = x509.IPAddress(ipaddress.ip_address(host))
        builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    return Signed(key, builder.sign(issuer.key if issuer else key, hashes.SHA256()))


@dataclass(frozen=True)
class Authority:
    """The trusted authority (`ca.pem` in its folder), and one that imitates it."""

    folder: Path
    trusted: Signed = field(default_factory=lambda: signed(None, None))
    unknown: Signed = field(default_factory=lambda: signed(None, None))

    def __post_init__(self) -> None:
        (self.folder / "ca.pem").write_bytes(self.trusted.pem)

    def context(self, kind: str, host: str) -> ssl.SSLContext:
        """The TLS context of a host, by its row."""
        return _CONTEXTS[kind](self, host)

    def written(self, found: Signed, host: str, chain: bytes = b"") -> Path:
        """A file with a key and its certificate."""
        pem = self.folder / f"{host}.pem"
        pem.write_bytes(found.secret + found.pem + chain)
        return pem

    def vouched(self, host: str) -> Signed:
        """A valid certificate."""
        return signed(host, self.trusted)

    def served(self, found: Signed, host: str, chain: bytes = b"") -> ssl.SSLContext:
        """A server with this certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.written(found, host, chain))
        return context


def _old(authority: Authority, host: str) -> ssl.SSLContext:
    context = authority.served(authority.vouched(host), host)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    return context


def _tls_12(authority: Authority, host: str) -> ssl.SSLContext:
    context = authority.served(authority.vouched(host), host)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def _curious(authority: Authority, host: str) -> ssl.SSLContext:
    context = authority.served(authority.vouched(host), host)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority.trusted.pem.decode())
    return context


_CONTEXTS: dict[str, Callable[[Authority, str], ssl.SSLContext]] = {
    "tls": lambda by, host: by.served(by.vouched(host), host),
    "tls, self-signed": lambda by, host: by.served(signed(host, None), host),
    "tls, expired": lambda by, host: by.served(signed(host, by.trusted, expired=True), host),
    "tls, another's": lambda by, host: by.served(by.vouched(_SOMEBODY), host),
    "tls, unknown issuer": lambda by, host: by.served(signed(host, by.unknown), host),
    "tls, long chain": lambda by, host: by.served(
        by.vouched(host), host, by.trusted.pem * _LONG_CHAIN
    ),
    "tls 1.1": _old,
    "tls 1.2": _tls_12,
    "tls, curious": _curious,
}
