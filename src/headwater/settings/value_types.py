"""Validators of configuration values; each returns the value in its normal form."""

import base64
import binascii
import ipaddress
import re
from pathlib import Path
from urllib.parse import urlsplit

from headwater.errors import BadUrl, UsageError
from headwater.rules.channels import email_address
from headwater.rules.text_checks import is_one_line
from headwater.rules.urls import normal_host, parse_url

MASTER_KEY_BYTES = 32
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_SQLITE = "sqlite:///"
_POSTGRES = "postgresql://"
_POSTGRES_HOST = re.compile(r"(\[[0-9A-Fa-f:.%]*\]|[^:@\[\]\s]*)(:\d{1,5})?")
_HEX_KEY = re.compile(r"[0-9A-Fa-f]{64}")
_VISIBLE = re.compile(r"[!-~]+")


def host(text: str) -> str:
    """A host name or address, normalised (P1)."""
    try:
        return normal_host(text.removeprefix("[").removesuffix("]"))
    except BadUrl:
        raise ValueError("must be a host name or an address") from None


def line(value: object) -> object:
    """Text without control characters, such as a password; anything else is left to others."""
    if isinstance(value, str) and not (value and is_one_line(value)):
        raise ValueError("must be one line of text")
    return value


def email(text: str) -> str:
    """An e-mail address, its domain normalised."""
    try:
        return email_address(text)
    except UsageError as error:
        raise ValueError(str(error)) from None


def host_pattern(text: str) -> str:
    """A host, or `*.` and a name for all hosts below it (P2)."""
    wildcard, name = ("*.", text[2:]) if text.startswith("*.") else ("", text)
    try:
        normal = host(name)
    except ValueError:
        raise ValueError("must be a host or *. and a host") from None
    if wildcard and (":" in normal or normal.rpartition(".")[2].isdigit()):
        raise ValueError("must be a host or *. and a host name, not an address")
    return wildcard + normal


def bind_host(text: str) -> str:
    """A name or address to listen on, unchanged."""
    host(text)
    return text.removeprefix("[").removesuffix("]")


def database_url(text: str) -> str:
    """`sqlite:///relative.db`, `sqlite:////absolute.db` or `postgresql://…`."""
    if text.startswith(_SQLITE):
        path = text.removeprefix(_SQLITE)
        if not path.strip("/") or path.endswith("/") or re.search(r"[\x00-\x1f?#]", path):
            raise ValueError("must name a file: sqlite:///relative.db or sqlite:////absolute.db")
        if path == ":memory:":
            raise ValueError("must name a file: a database in memory would lose everything")
        return text
    if text.startswith(_POSTGRES):
        return _postgres_url(text)
    raise ValueError("must be sqlite:///file.db or postgresql://user@host/name")


def sqlite_file(url: str) -> Path | None:
    """The file of a SQLite database, None for another kind."""
    return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None


def contact(text: str) -> str:
    """A URL or mailto: address that is safe in a header."""
    if not _VISIBLE.fullmatch(text) or len(text) > 500 or re.search(r"[()<>]", text):
        raise ValueError("must be a URL in plain ASCII without spaces and brackets")
    if not text.startswith("mailto:"):
        web_url(text)
    return text


def web_url(text: str) -> str:
    """An http(s) URL without trailing slash, so that paths can be appended."""
    try:
        url = parse_url(text)
    except BadUrl as error:
        raise ValueError(f"must be an http(s) URL: {error}") from None
    if url.username is not None:
        raise ValueError("must be an http(s) URL without user name and password")
    return text.strip().rstrip("/")


def proxy_url(text: str) -> str:
    """The URL of an HTTP proxy, with optional user name and password."""
    try:
        url = parse_url(text)
    except BadUrl as error:
        raise ValueError(f"must be an http URL: {error}") from None
    if url.scheme != "http":
        raise ValueError("must be http://host:port: proxies are contacted over plain HTTP")
    if url.target != "/":  # also catches a password whose raw slash would end up in logs
        raise ValueError("must be http://host:port without a path; write / in a password as %2F")
    return text.strip()


def networks(value: object) -> bool | tuple[Network, ...]:
    """True, False, or a tuple of private networks that may be visited."""
    if isinstance(value, bool):
        return value
    items = value if isinstance(value, list | tuple) else [None]
    try:
        return tuple(_network(item) for item in items)
    except (ValueError, TypeError):
        sentence = "must be true, false or a list of networks such as [192.168.1.0/24]"
        raise ValueError(sentence) from None


def proxy_network(value: object) -> Network:
    """A network; an address is a network of one."""
    try:
        return _network(value)
    except (ValueError, TypeError):
        raise ValueError("must be an address or a network such as 10.1.2.0/24") from None


def master_key(value: object) -> bytes:
    """The 32 bytes encoded as hexadecimal or base64 text."""
    key = value if isinstance(value, bytes) else _decoded(value) if isinstance(value, str) else b""
    if len(key) != MASTER_KEY_BYTES:
        raise ValueError("must be 32 bytes, written as 64 hexadecimal digits or as base64")
    return key


def _postgres_url(text: str) -> str:
    problem = "must be postgresql://user:password@host:port/name; write @ / ? # in them as %40 …"
    try:
        parts = urlsplit(text)
    except ValueError:
        raise ValueError(problem) from None
    hosts = parts.netloc.rpartition("@")[2].split(",")
    # an unescaped @ after the host means that the password was split and would appear as a path
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
    raise TypeError("a number would be read as an address")


def _decoded(text: str) -> bytes:
    text = text.strip()
    if _HEX_KEY.fullmatch(text):
        return bytes.fromhex(text)
    standard = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""
