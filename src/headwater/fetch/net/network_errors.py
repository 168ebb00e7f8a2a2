"""Converts errors of the network into our own (F1, O1)."""

import errno
import os

from headwater import errors
from headwater.fetch.net.connector import ProxyFault, Refused
from headwater.fetch.net.http_connection import ReadStalled
from headwater.fetch.net.http_response_parser import NotHttp
from headwater.fetch.net.tls import BadCertificate, TlsError
from headwater.fetch.text.sanitize import storable_line

# what the client, the event loops and the system raise; everything else is a bug
NETWORK_ERRORS = (OSError, TlsError, ProxyFault, RuntimeError, ValueError, MemoryError)
# the fault is on our side (O1)
_LOCAL = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EPERM, errno.EACCES}
    | {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL}
)


def fetch_error(error: BaseException, url: str) -> errors.FetchError:
    """Our error for one that a request to this (masked) URL raised."""
    match error:
        case errors.TooLarge() | errors.BrokenBody():
            return type(error)(f"{error} ({url})")
        case errors.FetchError():
            return error
        case ReadStalled():
            return errors.TimedOut(f"{url} stopped sending")
        case TimeoutError():
            return errors.TimedOut(f"connecting to {url} took too long")
        case BadCertificate():
            return errors.TlsFailed(f"the certificate of {url} is not valid: {_one_line(error)}")
        case TlsError() if "wrong version number" in str(error):  # it answered in plain text
            return errors.TlsFailed(f"{url} does not speak TLS; with http:// it may be readable")
        case TlsError():
            return errors.TlsFailed(f"no secure connection to {url}: {_one_line(error)}")
        case NotHttp():
            return errors.ConnectFailed(f"{url} does not speak HTTP")
        case ValueError():
            return errors.FetchError(f"the request to {url} cannot be sent: {_one_line(error)}")
        case _:
            return _connection_error(error, url)


def _connection_error(error: BaseException, url: str) -> errors.FetchError:
    match error:
        case ProxyFault(status=0):
            return errors.LocalFault(f"the proxy for {url} cannot be reached: {_reason(error)}")
        case ProxyFault(status=status):
            needs_password = status == 407
            kind = errors.LocalFault if needs_password else errors.ConnectFailed
            return kind(f"the proxy answered {status} for {url}")
        case Refused():
            return errors.AddressRefused(error.strerror)
        case _ if isinstance(error, MemoryError) or getattr(error, "errno", None) in _LOCAL:
            return errors.LocalFault(f"{url} cannot be reached from here: {_reason(error)}")
        case _:
            return errors.ConnectFailed(f"the connection to {url} failed: {_reason(error)}")


def _reason(error: BaseException) -> str:
    """The system's description of an error without the library's."""
    number = getattr(error, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number).lower()
    return _one_line(error) or type(error).__name__


def _one_line(error: BaseException) -> str:
    return storable_line(str(error), 200)
