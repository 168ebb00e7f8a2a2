"""Redirects in loops, to invalid targets, to other protocols, with credentials."""

from tests.hostile.documents import GOOD, good, rss
from tests.hostile.exchange import Exchange, answer, head, redirect
from tests.hostile.table import Either, Failed, Stored, row

FEED = answer(rss(good()))
ASTRAY = Failed("redirect")
KEPT = Stored(1, (GOOD,))
PASSWORD = "pw-for-one-host-only"


def to(location: str, status: str = "302 Found"):
    """Redirect the source's own path; every other path is a good feed."""

    def talk(ex: Exchange) -> bytes:
        if ex.target.startswith("/feed"):
            return redirect(location.replace("{elsewhere}", ex.other.partition("//")[2]), status)
        return FEED

    return talk


def steps(count: int):
    """A chain of redirects with a feed at its end."""

    def talk(ex: Exchange) -> bytes:
        at = int(ex.target[1:].replace("feed", "0"))
        return redirect(f"/{at + 1}") if at < count else FEED

    return talk


def ping_pong(ex: Exchange) -> bytes:
    """Two hosts that redirect to each other."""
    return redirect(f"{ex.origin}/feed" if ex.is_elsewhere else f"{ex.other}/feed")


def ever_new(ex: Exchange) -> bytes:
    """A redirect to a new path each time."""
    return redirect(f"/{ex.number}")


def until_cookie(ex: Exchange) -> bytes:
    """A redirect that ends when the client sends the cookie."""
    return FEED if ex.header("Cookie") else redirect("/feed", "302 Found", "Set-Cookie: ok=1")


def elsewhere(ex: Exchange) -> bytes:
    """A feed on the second host."""
    return FEED if ex.is_elsewhere else redirect(f"{ex.other}/moved")


def final(status: str):
    """A redirect to an error."""

    def talk(ex: Exchange) -> bytes:
        return redirect("/end") if ex.target == "/feed" else answer(b"", status=status)

    return talk


async def endless_body(ex: Exchange) -> None:
    """A redirect whose own body never ends."""
    if ex.target != "/feed":
        await ex.send(FEED)
        return
    await ex.send(head("Location: /there", "Connection: close", status="302 Found"))
    while True:
        await ex.send(b"x" * 65536)


def no_password(sight) -> bool:
    """Credentials were sent to the first host only."""
    return (
        "authorization" in "".join(sight.requests).lower()
        and bool(sight.elsewhere)
        and "authorization" not in "".join(sight.elsewhere).lower()
    )


ROWS = (
    row("redirect to itself", "N5", to("/feed"), ASTRAY, sight=lambda s: len(s.requests) == 1),
    row("circle of two hosts", "N5 P3", ping_pong, ASTRAY, elsewhere=True),
    row("circle until a cookie is sent", "N5 N11", until_cookie, ASTRAY),
    row("ever new redirects", "N5", ever_new, ASTRAY, sight=lambda s: len(s.requests) == 6),
    row("five redirects", "N5", steps(5), KEPT),
    row("six redirects", "N5", steps(6), ASTRAY),
    row("redirect without location", "N5", head(status="302 Found"), Failed("redirect|timeout")),
    row("redirect to an empty location", "N5", to(""), ASTRAY),
    row("redirect to two places", "N5",
        answer(b"", "Location: /a", "Location: /b", status="302 Found"), ASTRAY),
    row("redirect to a file", "N2 N5", to("file:///etc/passwd"), ASTRAY),
    row("redirect to ftp", "N2 N5", to("ftp://127.0.0.1/feed"), ASTRAY),
    row("redirect to gopher", "N2 N5", to("gopher://127.0.0.1:70/_hello"), ASTRAY),
    row("redirect to data", "N2 N5", to("data:text/xml,<rss/>"), ASTRAY),
    row("redirect to a script", "N2 N5", to("javascript:alert(1)"), ASTRAY),
    row("redirect to a unix socket", "N2 N5", to("http+unix://%2Frun%2Fdocker.sock/info"), ASTRAY),
    row("redirect to no host", "N5", to("http:///feed"), ASTRAY),
    row("redirect to half an address", "N5", to("http://[::1/feed"), ASTRAY),
    row("redirect to port 99999", "N5", to("http://127.16.0.1:99999/"), ASTRAY),
    row("redirect to port 0", "N5", to("http://127.16.0.1:0/"), ASTRAY),
    row("redirect with a backslash", "N4 N5", to("http://127.16.0.1\\@evil.example/"), ASTRAY),
    row("redirect of 20,000 characters", "N5 N7", to("/" + "x" * 20_000), ASTRAY),
    row("redirect with a tab inside", "N5", to("/pa\tth"),
        Either(KEPT, Failed("redirect|broken body"))),
    row("redirect with bytes", "N5", to("/caf\udcc3\udca9/\udcff"), KEPT),
    row("redirect with spaces", "N5", to("/some where"), KEPT),
    row("redirect to a fragment", "N5", to("/there#part"), KEPT,
        sight=lambda s: s.targets == ["/feed", "/there"]),
    row("redirect above the root", "N5", to("/../../../../there"), KEPT),
    row("redirect without a scheme", "N5", to("//{elsewhere}/x"), KEPT, elsewhere=True),
    row("redirect to another host", "N5 P3", elsewhere, KEPT, elsewhere=True),
    row("redirect by 308", "N5", to("/there", "308 Permanent Redirect"), KEPT),
    row("multiple choices", "N5 F1",
        answer(b"", "Location: /there", status="300 Multiple Choices"), Failed("300")),
    row("use a proxy", "N5 F1", answer(b"", "Location: http://127.16.0.1:1/",
                                       status="305 Use Proxy"), Failed("305")),
    row("redirect to not found", "N5 F1", final("404 Not Found"), Failed("404", "permanent")),
    row("redirect to gone", "N5 F1", final("410 Gone"), Failed("410", "permanent")),
    row("redirect to a server error", "N5 F1", final("500 Oops"), Failed("500")),
    row("redirect with an endless body", "N5 N9", endless_body, KEPT),
    row("redirect with a password to another host", "N6", elsewhere, KEPT, elsewhere=True,
        url="http://me:" + PASSWORD + "@{netloc}/feed",
        sight=no_password, secrets=(PASSWORD,)),
    row("redirect to a name that does not exist", "F1 O2", to("http://gone.invalid/feed"),
        Failed("DNS", "permanent")),
    row("refresh instead of a redirect", "N15 R1",
        answer(b"<html><head><meta http-equiv=refresh content='0;url=/there'></head></html>"),
        Failed("parse"), sight=lambda s: s.targets == ["/feed"]),
)  # fmt: skip
