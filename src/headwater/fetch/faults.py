"""What went wrong on the network, in our own errors (F1, O1)."""

import errno
import ssl

from aiohttp import (  # noqa: TID251  the inner half of headwater.fetch.http
    ClientConnectorCertificateError,
    ClientConnectorError,
    ClientError,
    ClientHttpProxyError,
    ClientPayloadError,
    ClientProxyConnectionError,
    ClientResponseError,
    ClientSSLError,
    ConnectionTimeoutError,
    ServerTimeoutError,
)
from aiohttp.http_exceptions import BadStatusLine, LineTooLong  # noqa: TID251

from headwater.errors import (
    AddressRefused,
    BrokenBody,
    ConnectFailed,
    FetchError,
    LocalFault,
    TimedOut,
    TlsFailed,
    TooLarge,
)
from headwater.fetch.connect import Refused

# what the client, the loops and the system raise; everything else is a mistake of ours
NETWORK_ERRORS = (ClientError, OSError, RuntimeError, ValueError, MemoryError)
# our side could not ask (O1)
_LOCAL = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOBUFS,
        errno.ENETUNREACH,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.EADDRNOTAVAIL,
        errno.EPERM,
        errno.EACCES,
    }
)


def fault_of(error: BaseException, url: str) -> FetchError:
    """Say in one of our errors what happened on the way to this (masked) URL."""
    match error:
        case TooLarge() | BrokenBody():
            return type(error)(f"{error} ({url})")
        case FetchError():
            return error
        case ConnectionTimeoutError():
            return TimedOut(f"connecting to {url} took too long")
        case ServerTimeoutError():
            return TimedOut(f"{url} stopped sending")
        case TimeoutError():
            return TimedOut(f"{url} took too long")
        case ClientConnectorCertificateError():
            return TlsFailed(f"the certificate of {url} is not valid: {_certificate_fault(error)}")
        case ClientSSLError() | ssl.SSLError():
            return TlsFailed(f"no secure connection to {url}: {_reason(error)}")
        case ClientProxyConnectionError():
            return LocalFault(f"the proxy for {url} cannot be reached: {_reason(error)}")
        case ClientHttpProxyError(status=status):
            kind = LocalFault if status == 407 else ConnectFailed
            return kind(f"the proxy answered {status} for {url}")
        case ClientConnectorError(os_error=Refused() as refused):
            return AddressRefused(f"{refused.strerror}: {url}")
        case ClientResponseError():
            return _no_http(error, url)
        case ClientPayloadError():
            return BrokenBody(f"the body was cut short ({url})")
        case MemoryError():
            return LocalFault(f"out of memory while reading {url}")
        case ValueError():
            return FetchError(f"the request to {url} cannot be sent: {_one_line(str(error))}")
        case _:
            return _connection_fault(error, url)


def _no_http(error: ClientResponseError, url: str) -> FetchError:
    """Tell a limit from a contradiction from a server that speaks something else."""
    cause = error.__cause__
    while cause is not None and cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, LineTooLong) or "Too many headers" in error.message:
        return TooLarge(f"the headers are too large or too many ({url})")
    if isinstance(cause, BadStatusLine):
        return ConnectFailed(f"{url} does not speak HTTP")
    return BrokenBody(f"the answer is not valid HTTP ({url})")


def _connection_fault(error: BaseException, url: str) -> FetchError:
    number = getattr(error, "errno", None)
    if isinstance(number, int) and number in _LOCAL:
        return LocalFault(f"{url} cannot be reached from here: {_reason(error)}")
    return ConnectFailed(f"the connection to {url} failed: {_reason(error)}")


def _reason(error: BaseException) -> str:
    """The system's words without the library's."""
    inner = getattr(error, "os_error", None) or error
    reason = getattr(inner, "reason", None)  # of a TLS error: CERTIFICATE_VERIFY_FAILED
    if isinstance(inner, ssl.SSLError) and reason:
        return str(reason).replace("_", " ").lower()
    return _one_line(getattr(inner, "strerror", None) or str(inner) or type(inner).__name__)


def _certificate_fault(error: ClientConnectorCertificateError) -> str:
    inner = error.certificate_error
    return _one_line(str(getattr(inner, "verify_message", "") or inner))


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
