"""What went wrong on the network, in our own errors (F1, O1)."""

import errno
import os

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
from headwater.fetch.connect import ProxyFault, Refused
from headwater.fetch.tls import BadCertificate, Insecure
from headwater.fetch.wire_errors import NoHttp, Stalled

# what the client, the loops and the system raise; everything else is a mistake of ours
NETWORK_ERRORS = (OSError, Insecure, ProxyFault, RuntimeError, ValueError, MemoryError)
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
        case Stalled():
            return TimedOut(f"{url} stopped sending")
        case TimeoutError():
            return TimedOut(f"connecting to {url} took too long")
        case BadCertificate():
            return TlsFailed(f"the certificate of {url} is not valid: {_one_line(str(error))}")
        case Insecure():
            return TlsFailed(f"no secure connection to {url}: {_one_line(str(error))}")
        case ProxyFault():
            return _proxy_fault(error, url)
        case NoHttp():
            return ConnectFailed(f"{url} does not speak HTTP")
        case ValueError():
            return FetchError(f"the request to {url} cannot be sent: {_one_line(str(error))}")
        case _:
            return _connection_fault(error, url)


def _proxy_fault(error: ProxyFault, url: str) -> FetchError:
    if not error.status:
        return LocalFault(f"the proxy for {url} cannot be reached: {_reason(error)}")
    kind = LocalFault if error.status == 407 else ConnectFailed  # 407: it wants a password
    return kind(f"the proxy answered {error.status} for {url}")


def _connection_fault(error: BaseException, url: str) -> FetchError:
    if isinstance(error, Refused):
        return AddressRefused(error.strerror)
    if isinstance(error, MemoryError) or getattr(error, "errno", None) in _LOCAL:
        return LocalFault(f"{url} cannot be reached from here: {_reason(error)}")
    return ConnectFailed(f"the connection to {url} failed: {_reason(error)}")


def _reason(error: BaseException) -> str:
    """The system's words without the library's."""
    number = getattr(error, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number).lower()
    return _one_line(str(error)) or type(error).__name__


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
