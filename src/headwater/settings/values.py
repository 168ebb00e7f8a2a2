"""What single values of the configuration may look like; each function answers its one form."""

import base64
import binascii
import ipaddress
import re
from pathlib import Path
from urllib.parse import urlsplit

from headwater.errors import BadUrl
from headwater.rules.urls import normal_host, parse_url

MASTER_KEY_BYTES = 32
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_SQLITE = "sqlite:///"
_POSTGRES = "postgresql://"
_POSTGRES_HOST = re.compile(r"(\[[0-9A-Fa-f:.%]*\]|[^:@\[\]\s]*)(:\d{1,5})?")
_HEX_KEY = re.compile(r"[0-9A-Fa-f]{64}")
_VISIBLE = re.compile(r"[!-~]+")


def host(text: str) -> str:
    """A host name or address, normalised as P1 says."""
    try:
        return normal_host(text.removeprefix("[").removesuffix("]"))
    except BadUrl:
        raise ValueError("must be a host name or an address") from None


def host_pattern(text: str) -> str:
    """A host, or `*.` and a name for all hosts below it (P2)."""
    wildcard, name = ("*.", text[2:]) if text.startswith("*.") else ("", text)
    try:
        normal = host(name)
    except ValueError:
        raise ValueError("must be a host or *. and a host") from None
    if wildcard and _is_address(normal):
        raise ValueError("must be a host or *. and a host: there is nothing below an address")
    return wildcard + normal


def bind_host(text: str) -> str:
    """A name or address to listen on, kept as it is written."""
    host(text)
    return text.removeprefix("[").removesuffix("]")


def database_url(text: str) -> str:
    """`sqlite:///relative.db`, `sqlite:////absolute.db` or `postgresql://…`."""
    if text.startswith(_SQLITE):
        path = text.removeprefix(_SQLITE)
        if not path.strip("/") or path.endswith("/") or re.search(r"[\x00-\x1f?#]", path):
            raise ValueError("must name a file: sqlite:///relative.db or sqlite:////absolute.db")
        if path == ":memory:":
            raise ValueError("must name a file: a database in memory would forget everything")
        return text
    if text.startswith(_POSTGRES):
        return _postgres_url(text)
    raise ValueError("must be sqlite:///file.db or postgresql://user@host/name")


def sqlite_file(url: str) -> Path | None:
    """The file of a SQLite database, None for another kind."""
    return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None


def contact(text: str) -> str:
    """A URL or mailto: address that fits into a header."""
    if not _VISIBLE.fullmatch(text) or len(text) > 500 or re.search(r"[()<>]", text):
        raise ValueError("must be a URL in plain ASCII without spaces and brackets")
    if not text.startswith("mailto:"):
        web_url(text)
    return text


def web_url(text: str) -> str:
    """An http(s) URL that paths can be put behind."""
    try:
        url = parse_url(text)
    except BadUrl as error:
        raise ValueError(f"must be an http(s) URL: {error}") from None
    if url.username is not None:
        raise ValueError("must be an http(s) URL without user name and password")
    return text.strip().rstrip("/")


def proxy_url(text: str) -> str:
    """An HTTP proxy, with user name and password if it wants them."""
    try:
        url = parse_url(text)
    except BadUrl as error:
        raise ValueError(f"must be an http URL: {error}") from None
    if url.scheme != "http":
        raise ValueError("must be http://host:port: we speak with a proxy in plain HTTP")
    if url.target != "/":  # also catches a password whose raw slash would end up in logs
        raise ValueError("must be http://host:port without a path; write / in a password as %2F")
    return text.strip()


def networks(value: object) -> bool | tuple[Network, ...]:
    """True, False, or the private networks that may be visited."""
    if isinstance(value, bool):
        return value
    items = value if isinstance(value, list | tuple) else [None]
    try:
        return tuple(_network(item) for item in items)
    except (ValueError, TypeError):
        sentence = "must be true, false or a list of networks such as [192.168.1.0/24]"
        raise ValueError(sentence) from None


def master_key(value: object) -> bytes:
    """The 32 bytes that a hexadecimal or base64 text stands for."""
    key = value if isinstance(value, bytes) else _decoded(value) if isinstance(value, str) else b""
    if len(key) != MASTER_KEY_BYTES:
        raise ValueError("must be 32 bytes, written as 64 hexadecimal digits or as base64")
    return key


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _postgres_url(text: str) -> str:
    problem = "must be postgresql://user:password@host:port/name; write @ / ? # in them as %40 …"
    try:
        parts = urlsplit(text)
    except ValueError:
        raise ValueError(problem) from None
    hosts = parts.netloc.rpartition("@")[2].split(",")
    # a raw @ further on means that a password was cut in two, and would be shown as a path
    if "@" in parts.path + parts.query + parts.fragment or re.search(r"[\x00-\x20]", text):
        raise ValueError(problem)
    if not all(_POSTGRES_HOST.fullmatch(name) for name in hosts):
        raise ValueError(problem)
    return text


def _network(item: object) -> Network:
    if isinstance(item, Network):
        return item
    if isinstance(item, str):
        return ipaddress.ip_network(item.strip())
    raise TypeError("a number would be taken for an address")


def _decoded(text: str) -> bytes:
    text = text.strip()
    if _HEX_KEY.fullmatch(text):
        return bytes.fromhex(text)
    standard = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""
