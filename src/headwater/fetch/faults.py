"""What went wrong on the network, in our own errors (F1, O1)."""

import errno
import os
import ssl

from aiohttp import (  # noqa: TID251  the inner half of headwater.fetch.http
    ClientConnectorCertificateError,
    ClientError,
    ClientHttpProxyError,
    ClientPayloadError,
    ClientProxyConnectionError,
    ClientResponseError,
    ConnectionTimeoutError,
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
        case TimeoutError():
            return _timeout(error, url)
        case ClientConnectorCertificateError() | ssl.SSLError():
            return _tls_fault(error, url)
        case ClientProxyConnectionError() | ClientHttpProxyError():
            return _proxy_fault(error, url)
        case ClientResponseError() | ClientPayloadError():
            return _bad_answer(error, url)
        case ValueError():
            return FetchError(f"the request to {url} cannot be sent: {_one_line(str(error))}")
        case _:
            return _connection_fault(error, url)


def _timeout(error: TimeoutError, url: str) -> FetchError:
    if isinstance(error, ConnectionTimeoutError):
        return TimedOut(f"connecting to {url} took too long")
    return TimedOut(f"{url} stopped sending")


def _tls_fault(error: Exception, url: str) -> FetchError:
    if isinstance(error, ClientConnectorCertificateError):
        inner = error.certificate_error
        reason = _one_line(str(getattr(inner, "verify_message", "") or inner))
        return TlsFailed(f"the certificate of {url} is not valid: {reason}")
    return TlsFailed(f"no secure connection to {url}: {_reason(error)}")


def _proxy_fault(error: ClientProxyConnectionError | ClientHttpProxyError, url: str) -> FetchError:
    if isinstance(error, ClientProxyConnectionError):
        return LocalFault(f"the proxy for {url} cannot be reached: {_reason(error)}")
    kind = LocalFault if error.status == 407 else ConnectFailed  # 407: it wants a password
    return kind(f"the proxy answered {error.status} for {url}")


def _bad_answer(error: ClientResponseError | ClientPayloadError, url: str) -> FetchError:
    """Tell a limit from a contradiction from a server that speaks something else."""
    if isinstance(error, ClientPayloadError):
        is_short = "not completed" in str(error)  # the library's words; the others are ours
        return BrokenBody(f"{'the body was cut short' if is_short else error} ({url})")
    cause = error.__cause__
    while cause is not None and cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, LineTooLong) or "Too many headers" in error.message:
        return TooLarge(f"the headers are too large or too many ({url})")
    if isinstance(cause, BadStatusLine):
        return ConnectFailed(f"{url} does not speak HTTP")
    return BrokenBody(f"the answer is not valid HTTP ({url})")


def _connection_fault(error: BaseException, url: str) -> FetchError:
    inner = getattr(error, "os_error", error)
    if isinstance(inner, Refused):
        return AddressRefused(inner.strerror)
    if isinstance(inner, MemoryError) or getattr(inner, "errno", None) in _LOCAL:
        return LocalFault(f"{url} cannot be reached from here: {_reason(error)}")
    return ConnectFailed(f"the connection to {url} failed: {_reason(error)}")


def _reason(error: BaseException) -> str:
    """The system's words without the library's."""
    inner = getattr(error, "os_error", error)
    reason = getattr(inner, "reason", None)  # of a TLS error: WRONG_VERSION_NUMBER
    if isinstance(inner, ssl.SSLError) and reason:
        return str(reason).replace("_", " ").lower()
    number = getattr(inner, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number).lower()
    return _one_line(str(inner)) or type(inner).__name__


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
