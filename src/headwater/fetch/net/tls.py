"""TLS: verifies every server (N14) and resumes sessions, which saves most of a handshake.

Uses the OpenSSL that the `cryptography` package includes: its handshakes take a fraction of the
time of the one below Python's own `ssl`, and it resumes sessions.
"""

import ssl
from collections import OrderedDict
from ipaddress import ip_address

from OpenSSL import SSL, crypto

_lib, _ffi = SSL._lib, SSL._ffi  # type: ignore[attr-defined]

_GROUPS = b"X25519:P-256:P-384"  # no post-quantum groups: their keys cost more than all the rest
_NO_PARTIAL_WILDCARDS = 4  # X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS: *.example.org, never w*.…
# no finite-field key exchange: the server chooses the modulus, and a large one takes seconds (H2)
_CIPHERS = b"DEFAULT:!DHE:!PSK:!SRP"
_RECORD = 16_384  # bytes that one record holds at most
_SEQUENCE_TAG, _CERTIFICATE_TAG = 0x30, 0xA3  # in a session's DER
MAX_SESSION_BYTES = 8192  # a ticket and the server's certificate; larger sessions are not resumed


class TlsError(Exception):
    """No secure connection could be established; the message gives the reason."""


class BadCertificate(TlsError):
    """The certificate is not valid for this host; the message gives the reason."""


class TlsContext:
    """Trusted certificate authorities, and a cache of sessions of verified servers."""

    def __init__(self, tls: ssl.SSLContext | None = None, *, max_sessions: int = 4096) -> None:
        context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        context.set_min_proto_version(SSL.TLS1_2_VERSION)
        context.set_cipher_list(_CIPHERS)
        context.set_options(SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_COMPRESSION)
        context.set_verify(SSL.VERIFY_PEER)
        context.set_session_cache_mode(SSL.SESS_CACHE_CLIENT | SSL.SESS_CACHE_NO_INTERNAL)
        if _lib.SSL_CTX_set1_curves_list(context._context, _GROUPS) != 1:
            raise TlsError("this OpenSSL has none of the usual curves")
        _trust_roots(context, tls or ssl.create_default_context())
        self._context = context
        self._sessions: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._max_sessions = max_sessions

    def channel(self, host: str, port: int) -> "TlsChannel":
        """TLS for a new connection to a host; resumes the last session if there is one."""
        return TlsChannel(self, SSL.Connection(self._context, None), host, port)

    def session(self, host: str, port: int) -> bytes | None:
        """The last session with a host."""
        return self._sessions.get((host, port))

    def save_session(self, host: str, port: int, session: bytes) -> None:
        """Cache a session unless it is empty; evicts the least recently saved one."""
        if not session:
            return
        self._sessions[host, port] = session
        self._sessions.move_to_end((host, port))
        if len(self._sessions) > self._max_sessions:
            self._sessions.popitem(last=False)


class TlsChannel:
    """The TLS state of one connection: decrypts received bytes, encrypts sent ones. No I/O."""

    def __init__(
        self, context: TlsContext, connection: SSL.Connection, host: str, port: int
    ) -> None:
        self._context = context
        self._connection = connection
        self._host = host
        self._port = port
        self.is_established = False  # the handshake is over, the certificate verified
        self.is_closed_by_peer = False  # it sent close_notify
        connection.set_connect_state()
        _set_expected_host(connection, host)
        session = context.session(host, port)
        if session is not None:
            _offer_session(connection, session)

    def start_handshake(self) -> bytes:
        """The first bytes to send."""
        self._continue_handshake()
        return self.take_output()

    def decrypt(self, data: bytes) -> bytes:
        """Decrypt received bytes; afterwards `take_output` may have bytes to send."""
        connection = self._connection
        connection.bio_write(data)
        if not self.is_established and not self._continue_handshake():
            return b""
        pieces: list[bytes] = []
        try:
            while True:
                pieces.append(connection.recv(_RECORD))
        except SSL.WantReadError:
            pass
        except SSL.ZeroReturnError:
            self.is_closed_by_peer = True  # what follows is ignored
        except SSL.Error as error:
            raise TlsError(_reason(error)) from error
        return b"".join(pieces)

    def encrypt(self, data: bytes) -> bytes:
        """The bytes to send for this plaintext."""
        try:
            self._connection.sendall(data)
        except SSL.Error as error:  # the peer expects another message first
            raise TlsError(_reason(error)) from error
        return self.take_output()

    def take_output(self) -> bytes:
        """The encrypted bytes that are ready to be sent."""
        size = _lib.BIO_get_mem_data(self._connection._from_ssl, _ffi.new("char **"))
        return self._connection.bio_read(size) if size > 0 else b""

    def save_session(self) -> None:
        """Cache the session at the end of the connection, for the next one."""
        if self.is_established:
            # without a close_notify, OpenSSL would mark the session as not resumable
            self._connection.set_shutdown(SSL.SENT_SHUTDOWN)
            self._context.save_session(self._host, self._port, _session_of(self._connection))

    def _continue_handshake(self) -> bool:
        try:
            self._connection.do_handshake()
        except SSL.WantReadError:
            return False
        except SSL.Error as error:
            verdict = _lib.SSL_get_verify_result(self._connection._ssl)
            if verdict == 0:
                raise TlsError(_reason(error)) from error
            reason = _ffi.string(_lib.X509_verify_cert_error_string(verdict))
            raise BadCertificate(reason.decode("ascii", "replace")) from error
        self.is_established = True
        return True


def _trust_roots(context: SSL.Context, tls: ssl.SSLContext) -> None:
    """Trust the authorities of Python's own TLS: the system's, and those added to it."""
    store = context.get_cert_store()
    if store is None:
        raise TlsError("this OpenSSL has no store for the certificates of authorities")
    for root in tls.get_ca_certs(binary_form=True):
        store.add_cert(crypto.load_certificate(crypto.FILETYPE_ASN1, root))
    folder = ssl.get_default_verify_paths().capath
    if folder is not None:
        context.load_verify_locations(None, folder)


def _set_expected_host(connection: SSL.Connection, host: str) -> None:
    """Make the handshake verify that the certificate is for this host."""
    parameters = _lib.SSL_get0_param(connection._ssl)
    try:
        address = ip_address(host).packed
    except ValueError:
        name = host.encode("ascii")
        _lib.X509_VERIFY_PARAM_set_hostflags(parameters, _NO_PARTIAL_WILDCARDS)
        is_set = _lib.X509_VERIFY_PARAM_set1_host(parameters, name, len(name))
        connection.set_tlsext_host_name(name)
    else:
        is_set = _lib.X509_VERIFY_PARAM_set1_ip(parameters, address, len(address))
    if is_set != 1:
        raise TlsError("its name cannot be verified")


def _session_of(connection: SSL.Connection) -> bytes:
    """A session as bytes: as an object it would hold the server's whole certificate chain."""
    session = _lib.SSL_get_session(connection._ssl)
    size = 0 if session == _ffi.NULL else _lib.i2d_SSL_SESSION(session, _ffi.NULL)
    if not 0 < size <= MAX_SESSION_BYTES:
        return b""
    buffer = _ffi.new("unsigned char[]", size)
    _lib.i2d_SSL_SESSION(session, _ffi.new("unsigned char **", buffer))
    return without_certificate(bytes(_ffi.buffer(buffer, size)))


def without_certificate(session: bytes) -> bytes:
    """A session without the server's certificate, which is costly to decode.

    It is not needed: a server that resumes a session proves its identity by that. In DER it is the
    element with tag 3 of a sequence; bytes of another form are returned unchanged.
    """
    start, end = _extent(session, 0)
    parts, at = [], start
    while at < end:
        _, following = _extent(session, at)
        if session[at] != _CERTIFICATE_TAG:
            parts.append(session[at:following])
        at = following
    body = b"".join(parts)
    if session[0] != _SEQUENCE_TAG or at != end or end != len(session):
        return session
    return bytes([_SEQUENCE_TAG, 0x82]) + len(body).to_bytes(2) + body


def _extent(der: bytes, at: int) -> tuple[int, int]:
    """Where the content of a DER element begins and ends, possibly beyond the bytes."""
    size, start = der[at + 1] if at + 1 < len(der) else 0, at + 2
    if size & 0x80:
        start, more = start + (size & 0x7F), der[start : start + (size & 0x7F)]
        size = int.from_bytes(more)
    return start, start + size


def _offer_session(connection: SSL.Connection, saved: bytes) -> None:
    """Offer to resume a session; one that cannot be decoded is not offered."""
    buffer = _ffi.from_buffer("unsigned char[]", saved)
    start = _ffi.new("const unsigned char **", buffer)
    session = _lib.d2i_SSL_SESSION(_ffi.NULL, start, len(saved))
    if session != _ffi.NULL:
        _lib.SSL_set_session(connection._ssl, session)
        _lib.SSL_SESSION_free(session)


def _reason(error: SSL.Error) -> str:
    """OpenSSL's own description of an error."""
    reasons = error.args[0] if error.args else []
    if not isinstance(reasons, list):
        return str(error)
    words = [str(entry[-1]) for entry in reasons if entry and entry[-1]]
    return ", ".join(words) or "no reason given"
