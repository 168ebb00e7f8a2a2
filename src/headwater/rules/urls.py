"""URL parsing: one parse used by the lane, the address guard and the connection (P1, N4)."""

import ipaddress
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

import idna

from headwater.errors import BadUrl

MAX_URL_LENGTH = 8192
_DEFAULT_PORTS = {"http": 80, "https": 443}
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_LOGIN_PATH = re.compile(r"(?:^|[/._-])(?:log-?in|sign-?in|sign_in|sso|auth)(?:$|[/._-])", re.I)
_SAFE = "/?:@!$&'()*+,;=-._~%[]|"


@dataclass(frozen=True, slots=True)
class WebUrl:
    """A parsed http(s) URL with a normalised host (P1)."""

    scheme: str
    host: str
    port: int
    target: str  # path and query, safe to send
    username: str | None = None
    password: str | None = None

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port, which credentials are bound to (N6)."""
        return self.scheme, self.host, self.port

    @property
    def netloc(self) -> str:
        """The host as in a URL and the Host header, with the port unless it is the default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def with_credentials(self) -> str:
        """The URL with its credentials, if it has any."""
        if self.username is None:
            return str(self)
        parts = (self.username, *(() if self.password is None else (self.password,)))
        user_info = ":".join(quote(part, safe="") for part in parts)
        return f"{self.scheme}://{user_info}@{self.netloc}{self.target}"

    def __str__(self) -> str:
        """The URL without its credentials."""
        return f"{self.scheme}://{self.netloc}{self.target}"


def parse_url(url: str) -> WebUrl:
    """Parse an absolute http(s) URL; BadUrl states why it cannot be visited (N2)."""
    url = url.strip()
    if len(url) > MAX_URL_LENGTH:
        raise BadUrl(f"the URL is longer than {MAX_URL_LENGTH} characters", field="url")
    if _FORBIDDEN.search(url.partition("?")[0]):
        raise BadUrl("the URL contains a space, backslash or control character", field="url")
    if _SURROGATE.search(url):
        raise BadUrl("the URL contains an invalid character (a lone surrogate)", field="url")
    try:
        parts = urlsplit(url)
        port = parts.port
        raw_host = parts.hostname
    except ValueError as error:
        raise BadUrl(f"not a URL: {error}", field="url") from error
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS:
        named = f"{scheme}: URLs are" if scheme else "a URL without http:// or https:// is"
        raise BadUrl(f"{named} not supported; use http:// or https://", field="url")
    if not raw_host:
        raise BadUrl("the URL has no host", field="url")
    if port == 0:
        raise BadUrl("the URL has port 0", field="url")
    parsed = WebUrl(
        scheme=scheme,
        host=normal_host(raw_host),
        port=port if port is not None else _DEFAULT_PORTS[scheme],
        target=_target(parts.path, parts.query),
        username=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
    )
    if len(str(parsed)) > MAX_URL_LENGTH:  # percent-encoding made it longer
        raise BadUrl(f"the URL is longer than {MAX_URL_LENGTH} characters", field="url")
    return parsed


def follow(base: WebUrl, location: str) -> WebUrl:
    """Resolve a redirect's target; credentials stay with the origin they were given for (N6)."""
    target = parse_url(urljoin(str(base), location.strip().replace(" ", "%20")))
    if target.username is None and target.origin == base.origin:
        return replace(target, username=base.username, password=base.password)
    return target


def is_login_url(url: str) -> bool:
    """Whether the path of a URL is usual for pages that ask for a login."""
    return _LOGIN_PATH.search(urlsplit(url).path) is not None


def normal_host(host: str) -> str:
    """Lower case, IDNA A-label, no trailing dot, canonical form of IP addresses (P1)."""
    if ":" in host:
        return _ipv6(host)
    try:
        ascii_host = host if host.isascii() else idna.encode(host, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError) as error:
        raise BadUrl(f"the host {host!r} is not a valid name", field="url") from error
    name = unquote(ascii_host).lower()
    name = name[:-1] if name.endswith(".") else name
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        return _ipv4(name)
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise BadUrl(f"the host {host!r} is not a valid name", field="url")
    return name


@lru_cache(maxsize=65536)
def url_host(url: str) -> str | None:
    """The normalised host of a URL, or None where it has none (P4)."""
    try:
        return parse_url(url).host
    except BadUrl:
        return None


def normalised_url(url: str) -> str:
    """The URL in a normal form, to compare URLs for duplicates.

    Scheme and host in lower case, no default port, no fragment.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        return url
    user_info, at, place = parts.netloc.rpartition("@")
    scheme, host = parts.scheme.lower(), place.lower()
    if port is not None and port == _DEFAULT_PORTS.get(scheme):
        host = host.rpartition(":")[0]
    path = parts.path or ("/" if host else "")
    return urlunsplit((scheme, f"{user_info}{at}{host}", path, parts.query, ""))


def is_address(host: str) -> bool:
    """Whether a normalised host is an IP address rather than a name."""
    return ":" in host or host.replace(".", "").isdigit()


def _target(path: str, query: str) -> str:
    safe_path = quote(path or "/", safe=_SAFE)
    return f"{safe_path}?{quote(query, safe=_SAFE)}" if query else safe_path


def _ipv6(host: str) -> str:
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError as error:
        raise BadUrl(f"{host!r} is not an IPv6 address", field="url") from error
    if address.ipv4_mapped is None:
        return str(address)
    # str() of a mapped address is hexadecimal up to Python 3.12 and dotted from 3.13 on; stored
    # hosts and lanes are hexadecimal
    high, low = divmod(int(address.ipv4_mapped), 1 << 16)
    return f"::ffff:{high:x}:{low:x}"


def _ipv4(name: str) -> str:
    """Parse an IPv4 address in any form C libraries accept: octal, hexadecimal, short (N4)."""
    labels = name.split(".")
    if len(labels) > 4 or not all(_NUMBER.fullmatch(label) for label in labels):
        raise BadUrl(f"{name!r} is not an IPv4 address", field="url")
    *heads, last = (_number(label) for label in labels)
    if any(head > 255 for head in heads) or last >= 256 ** (4 - len(heads)):
        raise BadUrl(f"{name!r} is not an IPv4 address", field="url")
    value = last + sum(head << (24 - 8 * index) for index, head in enumerate(heads))
    return str(ipaddress.IPv4Address(value))


def _number(label: str) -> int:
    try:
        if label[:2] in ("0x", "0X"):
            return int(label[2:] or "0", 16)
        return int(label, 8) if label[0] == "0" and len(label) > 1 else int(label, 10)
    except ValueError as error:
        raise BadUrl(f"{label!r} is not a number in an IPv4 address", field="url") from error
