"""TLS: every server verified (N14), and who was verified is remembered, which spares handshakes.

Spoken by the OpenSSL that the `cryptography` package brings along: it shakes hands in a fraction
of the time that the one below Python's own `ssl` takes, and resumes sessions.
"""

import ssl
from collections import OrderedDict
from ipaddress import ip_address

from OpenSSL import SSL, crypto

_lib, _ffi = SSL._lib, SSL._ffi  # type: ignore[attr-defined]

_GROUPS = b"X25519:P-256:P-384"  # without those whose keys cost more than all the rest
_NO_PARTIAL_WILDCARDS = 4  # X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS: *.example.org, never w*.…
# no finite-field key exchange: the server chooses the modulus, and a large one takes seconds (H2)
_CIPHERS = b"DEFAULT:!DHE:!PSK:!SRP"
_RECORD = 16_384  # bytes that one record holds at most
_SEQUENCE_TAG, _CERTIFICATE_TAG = 0x30, 0xA3  # in a session's DER
_MAX_SESSIONS = 4096
_MAX_SESSION_BYTES = (
    8192  # a ticket and the server's own certificate; who needs more is greeted anew
)


class Insecure(Exception):
    """No secure connection came about; says why in a few words."""


class BadCertificate(Insecure):
    """The certificate is not valid for this host; says why."""


class Trust:
    """Whom to trust, and the sessions of those that were found trustworthy."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        context.set_min_proto_version(SSL.TLS1_2_VERSION)
        context.set_cipher_list(_CIPHERS)
        context.set_options(SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_COMPRESSION)
        context.set_verify(SSL.VERIFY_PEER)
        context.set_session_cache_mode(SSL.SESS_CACHE_CLIENT | SSL.SESS_CACHE_NO_INTERNAL)
        if _lib.SSL_CTX_set1_curves_list(context._context, _GROUPS) != 1:
            raise Insecure("this OpenSSL has none of the usual curves")
        _trust_roots(context, tls or ssl.create_default_context())
        self._context = context
        self._sessions: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def secure(self, host: str, port: int) -> "Secured":
        """Begin to speak TLS with a host, going on where the last visit ended."""
        return Secured(self, SSL.Connection(self._context, None), host, port)

    def session(self, host: str, port: int) -> bytes | None:
        """What is remembered of a host."""
        return self._sessions.get((host, port))

    def remember(self, host: str, port: int, session: bytes) -> None:
        """Keep a session if there is one; the one not used for the longest time goes."""
        if not session:
            return
        self._sessions[host, port] = session
        self._sessions.move_to_end((host, port))
        if len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)


class Secured:
    """One connection's TLS: bytes of the wire in, bytes of the answer out, and back."""

    def __init__(self, trust: Trust, connection: SSL.Connection, host: str, port: int) -> None:
        self._trust = trust
        self._connection = connection
        self._host = host
        self._port = port
        self.is_ready = False  # the hands are shaken, the certificate verified
        self.is_over = False  # the other side has said goodbye
        connection.set_connect_state()
        _expect(connection, host)
        session = trust.session(host, port)
        if session is not None:
            _go_on(connection, session)

    def greet(self) -> bytes:
        """The first bytes to send."""
        self._shake()
        return self.outgoing()

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the wire and give what they say; `outgoing` may have an answer then."""
        connection = self._connection
        connection.bio_write(data)
        if not self.is_ready and not self._shake():
            return b""
        pieces: list[bytes] = []
        try:
            while not pieces or self._has_more():
                pieces.append(connection.recv(_RECORD))
        except SSL.WantReadError:
            pass
        except SSL.ZeroReturnError:
            self.is_over = True  # whatever follows is nobody's
        except SSL.Error as error:
            raise Insecure(_reason(error)) from error
        return b"".join(pieces)

    def seal(self, data: bytes) -> bytes:
        """What to send so that the other side reads this."""
        try:
            self._connection.sendall(data)
        except SSL.Error as error:  # the other side wants something else first
            raise Insecure(_reason(error)) from error
        return self.outgoing()

    def outgoing(self) -> bytes:
        """What the other side is to be sent by now."""
        size = _lib.BIO_get_mem_data(self._connection._from_ssl, _ffi.new("char **"))
        return self._connection.bio_read(size) if size > 0 else b""

    def end(self) -> None:
        """Remember the session: sent or not, the goodbye must not spoil it."""
        if self.is_ready:
            self._connection.set_shutdown(SSL.SENT_SHUTDOWN)
            self._trust.remember(self._host, self._port, _session_of(self._connection))

    def _has_more(self) -> bool:
        """Whether there is anything that was not read yet: to try it costs more than to look."""
        connection = self._connection
        if _lib.SSL_pending(connection._ssl) > 0:
            return True
        return int(_lib.BIO_get_mem_data(connection._into_ssl, _ffi.new("char **"))) > 0

    def _shake(self) -> bool:
        try:
            self._connection.do_handshake()
        except SSL.WantReadError:
            return False
        except SSL.Error as error:
            raise self._why(error) from error
        self.is_ready = True
        return True

    def _why(self, error: SSL.Error) -> Insecure:
        verdict = _lib.SSL_get_verify_result(self._connection._ssl)
        if verdict == 0:
            return Insecure(_reason(error))
        words = _ffi.string(_lib.X509_verify_cert_error_string(verdict)).decode("ascii", "replace")
        return BadCertificate(words)


def _trust_roots(context: SSL.Context, tls: ssl.SSLContext) -> None:
    """Trust whom Python's own TLS trusts: the system, and what was added to it."""
    store = context.get_cert_store()
    if store is None:
        raise Insecure("this OpenSSL has no place for the certificates of authorities")
    for root in tls.get_ca_certs(binary_form=True):
        store.add_cert(crypto.load_certificate(crypto.FILETYPE_ASN1, root))
    folder = ssl.get_default_verify_paths().capath
    if folder is not None:
        context.load_verify_locations(None, folder)


def _expect(connection: SSL.Connection, host: str) -> None:
    """Let the handshake verify that the certificate is for this very host."""
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
        raise Insecure("its name cannot be verified")


def _session_of(connection: SSL.Connection) -> bytes:
    """A session as bytes: kept as it is, it would keep the server's whole chain in memory."""
    session = _lib.SSL_get_session(connection._ssl)
    size = 0 if session == _ffi.NULL else _lib.i2d_SSL_SESSION(session, _ffi.NULL)
    if not 0 < size <= _MAX_SESSION_BYTES:
        return b""
    room = _ffi.new("unsigned char[]", size)
    _lib.i2d_SSL_SESSION(session, _ffi.new("unsigned char **", room))
    return without_certificate(bytes(_ffi.buffer(room, size)))


def without_certificate(session: bytes) -> bytes:
    """A session without the certificate that was verified: to read it again costs a lot.

    Nobody asks for it: who goes on with a session proves by that to be the same. It is the part
    with tag 3 of a sequence of parts in DER; what does not look like that stays as it is.
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
    """Where the content of an element begins and ends; the end of all where it is cut short."""
    size, start = der[at + 1] if at + 1 < len(der) else 0, at + 2
    if size & 0x80:
        start, more = start + (size & 0x7F), der[start : start + (size & 0x7F)]
        size = int.from_bytes(more)
    return start, start + size


def _go_on(connection: SSL.Connection, remembered: bytes) -> None:
    """Offer to go on with a session; what cannot be read is not offered."""
    room = _ffi.from_buffer("unsigned char[]", remembered)
    session = _lib.d2i_SSL_SESSION(
        _ffi.NULL, _ffi.new("const unsigned char **", room), len(remembered)
    )
    if session != _ffi.NULL:
        _lib.SSL_set_session(connection._ssl, session)
        _lib.SSL_SESSION_free(session)


def _reason(error: SSL.Error) -> str:
    """OpenSSL's words for what is wrong."""
    reasons = error.args[0] if error.args else []
    if not isinstance(reasons, list):
        return str(error)
    words = [str(entry[-1]) for entry in reasons if entry and entry[-1]]
    return ", ".join(words) or "it gives no reason"
