"""Renders pages from templates: all outside data is escaped (U4)."""

import hashlib
import sys
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from shutil import which
from typing import Annotated, Any
from urllib.parse import quote, unquote

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from headwater import __version__
from headwater.api.middleware.authentication import caller_of
from headwater.app import App
from headwater.engine.service import Service
from headwater.model import Podcast
from headwater.source_settings import SETTINGS
from headwater.web import failure_texts, humanize
from headwater.web.page_context import PageContext, navigation_at, page_context
from headwater.web.texts import TEXTS

_WARNINGS = frozenset({"polled-failed", "poll-held", "poll-waits"})  # shown as warnings
_MAX_DIGITS = 13
_LAST_PODCAST = "headwater-podcast"  # a cookie
_THEME = "headwater-theme"  # a cookie; live.js sets it
_FILTERS = (
    "utc", "count", "counted", "minutes", "shown_url", "masked", "link", "seconds", "delay_origin",
    "with_moments", "duration", "excerpt", "name_of", "span", "new_posts", "poll_summary",
    "round_top", "score_text", "skips", "text_of", "with_code",
)  # fmt: skip


class DashboardPage:
    """A page of the dashboard, for one request."""

    def __init__(self, request: Request, context: PageContext) -> None:
        self.request = request
        self.context = context
        self.app: App = request.app.state.app
        self.service: Service = request.app.state.service
        self.store = self.app.store

    @property
    def podcast(self) -> Podcast:
        """The podcast that the page is about."""
        assert self.context.podcast is not None
        return self.context.podcast

    @property
    def caller_id(self) -> str | None:
        """The id of the user who asks; None for an administrator."""
        return caller_of(self.request).user_id

    def show(self, template: str, *, status: int = 200, **content: Any) -> HTMLResponse:
        """Return the page; `content` has the template's own variables."""
        return render(self.request, template, self.context, status=status, **content)


def render(
    request: Request,
    template: str,
    context: PageContext | None,
    *,
    status: int = 200,
    **content: Any,
) -> HTMLResponse:
    """Return a page with the variables that all pages share; None: without navigation."""
    app: App = request.app.state.app
    service: Service = request.app.state.service
    now, guard = app.clock.now(), service.guard
    last_podcast = unquote(request.cookies.get(_LAST_PODCAST, ""))
    shared: Mapping[str, Any] = {
        "now": now,
        "ago": lambda moment: humanize.ago(moment, now),
        "until": lambda moment: humanize.until(moment, now),
        "context": context,
        "theme": _theme(request),
        "navigation": context and navigation_at(context, request.url.path, last_podcast),
        "notice": _notice(request),
        "notice_tone": "warn" if request.query_params.get("done") in _WARNINGS else "good",
        "outage": guard.kind,
        "outage_since": guard.since,
        "paused": service.paused,
        "cleanup_paused_until": service.cleanup_paused_until,
        "workers_alive": service.workers_alive,
        "workers_all_draining": service.workers_all_draining,
    }
    html = templates().get_template(template).render({**shared, **content})
    page = HTMLResponse(html, status_code=status)
    if context is not None and context.podcast and context.podcast.id != last_podcast:
        page.set_cookie(  # pages without a podcast link back to it
            _LAST_PODCAST,
            quote(context.podcast.id, safe=""),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
    return page


async def _any_page(request: Request) -> DashboardPage:
    return DashboardPage(request, await page_context(request.app.state.app.store, request))


async def _podcast_page(request: Request, p: str) -> DashboardPage:
    return DashboardPage(request, await page_context(request.app.state.app.store, request, p))


AnyPage = Annotated[DashboardPage, Depends(_any_page)]
PodcastPage = Annotated[
    DashboardPage, Depends(_podcast_page)
]  # of `{p}`, if the caller may see it (U2)


@cache
def templates() -> Environment:
    """Return the template environment, created once per process."""
    made = Environment(
        loader=PackageLoader("headwater.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {name: getattr(humanize, name) for name in _FILTERS}
    made.filters |= {"cause": failure_texts.tag_for, "outage": failure_texts.outage_for}
    made.globals |= {
        "version": __version__,
        "program": _program(),
        "source_settings": SETTINGS,
        "style_url": _fingerprint("style.css"),
        "script_url": _fingerprint("live.js"),
        "adding_script_url": _fingerprint("adding.js"),
        "filters_script_url": _fingerprint("filters.js"),
        "reading_script_url": _fingerprint("reading.js"),
        "health_labels": humanize.HEALTH_LABELS,
        "outcome_labels": humanize.OUTCOME_LABELS,
        "outcome_tones": humanize.OUTCOME_TONES,
    }
    return made


def done(
    url: str, notice: str, number: int | None = None, *, of: int | None = None
) -> RedirectResponse:
    """Return a redirect to a page that shows a notice."""
    assert notice in TEXTS["notices"], notice
    joined = f"{url}{'&' if '?' in url else '?'}done={notice}"
    if number is not None:
        joined += f"&n={number}"
    if of is not None:
        joined += f"&m={of}"
    return RedirectResponse(joined, status_code=303)


def _notice(request: Request) -> str | None:
    """Return the notice that the URL names; only its numbers come from the URL."""
    text: str | None = TEXTS["notices"].get(request.query_params.get("done", ""))
    if text is None:
        return None
    for name in ("n", "m"):
        number = request.query_params.get(name, "")
        known = number.isascii() and number.isdigit() and len(number) < _MAX_DIGITS
        text = text.replace(f"{{{name}}}", f"{int(number):,}" if known else "some")
    return text


def _theme(request: Request) -> str:
    """Return the colours that the user chose; empty: as the system has them."""
    chosen = request.cookies.get(_THEME, "")
    return chosen if chosen in ("light", "dark") else ""


def _program() -> str:
    """Return how this program is called on the command line: `make run` puts it on no path."""
    called = sys.argv[0]
    is_ours = called.endswith("/headwater") and which("headwater") is None
    return called if is_ours else "headwater"


def _fingerprint(name: str) -> str:
    """Return a static file's URL, which changes with its content and can be cached."""
    data = files("headwater.web").joinpath("static", name).read_bytes()
    return f"/static/{name}?v={hashlib.sha256(data).hexdigest()[:12]}"
