"""Pages from templates: everything that comes from outside is inserted as text (U4)."""

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote, unquote

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from headwater import __version__
from headwater.app import App
from headwater.engine.service import Service
from headwater.web import charts, failure_words, poll_history, words
from headwater.web.navigation import navigation_at
from headwater.web.place import Place

# what a page says after something was done; a redirect names one of them
NOTICES: dict[str, str] = {
    "scheduler-pause": "Polling is paused. What you ask for by hand is still polled.",
    "scheduler-resume": "Polling goes on: what is due is polled now.",
    "source-added": "Added. It is being polled right now; what comes of it shows up below.",
    "source-exists": "This podcast watches that address already: here it is. Nothing was added.",
    "sources-enabled": "Sources enabled: {n}. They are polled as soon as their hosts allow.",
    "sources-disabled": "Sources disabled: {n}. From now on they are polled by hand only.",
    "sources-requested": "Polls asked for: {n}. They are made as soon as their hosts allow.",
    "sources-interval": "Sources with the new interval: {n}.",
    "sources-deleted": "Sources deleted: {n}.",
    "sources-unchanged": "Nothing was changed: the sources were like that already.",
    "source-saved": "The settings are saved.",
    "source-enabled": "Enabled: its failures are forgotten, and a poll is asked for.",
    "source-disabled": "Disabled: from now on it is polled by hand only.",
    "source-deleted": "The source is deleted, with its posts, articles and history.",
    "polled-stored": "Polled: {n} new posts.",
    "polled-one": "Polled: 1 new post.",
    "polled-unchanged": "Polled: nothing new.",
    "polled-skipped": "Polled: nothing new. {n} entries were not stored; why is written below.",
    "polled-failed": "The poll failed. What went wrong, and what to do, is written below.",
    "poll-held": "Nothing was sent: the host asked to be left alone; how long is written below.",
    "poll-waits": "The poll waits for its host's turn and is made as soon as that comes.",
    "user-added": "The user is added. Podcasts and tokens for them can be made now.",
    "user-renamed": "The user has a new name.",
    "user-deleted": "The user is deleted, with everything that was theirs.",
    "podcast-added": "The podcast is added.",
    "podcast-saved": "The podcast is saved.",
    "podcast-deleted": "The podcast is deleted, with its sources, posts and articles.",
    "key-stored": "The X key is stored, sealed. Waiting sources that are polled now: {n}.",
    "key-removed": "The X key is forgotten.",
    "token-revoked": "The token is revoked: nobody comes in with it any more.",
    "aggregated": "{n} articles made of {m} posts.",
    "aggregated-one": "1 article made. Posts in it: {m}.",
    "aggregated-old": "No new article: {m} posts belong to articles that were there.",
    "aggregated-nothing": "No post waited: all of them are in articles already.",
    "marked": "{n} articles are processed now.",
    "marked-one": "1 article is processed now.",
    "marked-none": "Nothing to do: they were processed already.",
}
_TROUBLES = frozenset({"polled-failed", "poll-held", "poll-waits"})  # not what somebody hoped for
_MOST_DIGITS = 13
_LAST_PODCAST = "headwater-podcast"  # a cookie


class Pages:
    """Renders templates with what all pages share."""

    def __init__(self, app: App, service: Service) -> None:
        self._app = app
        self._service = service
        self._templates = _templates()

    def show(
        self,
        request: Request,
        template: str,
        place: Place | None,
        *,
        status: int = 200,
        **content: Any,
    ) -> HTMLResponse:
        """A page; `content` is what its template needs beyond what all pages share."""
        now = self._app.clock.now()
        guard = self._service.guard
        last_podcast = unquote(request.cookies.get(_LAST_PODCAST, ""))
        shared: Mapping[str, Any] = {
            "now": now,
            "ago": lambda moment: words.ago(moment, now),
            "until": lambda moment: words.until(moment, now),
            "path": request.url.path,
            "place": place,
            "navigation": place and navigation_at(place, request.url.path, last_podcast),
            "notice": _notice(request),
            "notice_tone": "warn" if request.query_params.get("done") in _TROUBLES else "good",
            "outage": guard.kind,
            "outage_since": guard.since,
            "paused": self._service.paused,
            "workers_alive": self._service.workers_alive,
        }
        html = self._templates.get_template(template).render({**shared, **content})
        page = HTMLResponse(html, status_code=status)
        if place is not None and place.podcast is not None:
            _remember_podcast(page, place.podcast.id, last_podcast, request)
        return page


def _remember_podcast(page: HTMLResponse, podcast_id: str, last: str, request: Request) -> None:
    """Let pages of no podcast lead back to this one: nothing but the browser keeps that."""
    if podcast_id != last:
        page.set_cookie(
            _LAST_PODCAST,
            quote(podcast_id, safe=""),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )


@cache
def _templates() -> Environment:
    """The templates, compiled once however many services there are."""
    made = Environment(
        loader=PackageLoader("headwater.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "utc": words.utc,
        "count": words.count,
        "minutes": words.minutes,
        "shown_url": words.shown_url,
        "link": words.link,
        "cause": failure_words.tag_for,
        "outage": failure_words.outage_for,
        "seconds": words.seconds,
        "delay_origin": words.delay_origin,
        "with_moments": words.with_moments,
        "duration": poll_history.duration,
        "excerpt": words.excerpt,
        "name_of": words.name_of,
    }
    made.globals |= {
        "version": __version__,
        "look": _fingerprint("style.css"),
        "script": _fingerprint("live.js"),
        "adding_script": _fingerprint("adding.js"),
        "health_words": words.HEALTH_WORDS,
        "marks": charts.marks,
        "outcome_words": poll_history.OUTCOME_WORDS,
        "outcome_tones": poll_history.OUTCOME_TONES,
    }
    return made


def done(
    url: str, notice: str, number: int | None = None, *, of: int | None = None
) -> RedirectResponse:
    """Lead back to a page after a change, which says what was done."""
    assert notice in NOTICES, notice
    joined = f"{url}{'&' if '?' in url else '?'}done={notice}"
    if number is not None:
        joined += f"&n={number}"
    if of is not None:
        joined += f"&m={of}"
    return RedirectResponse(joined, status_code=303)


def _notice(request: Request) -> str | None:
    """The sentence for what was done, by its name: nothing of the address itself is shown."""
    text = NOTICES.get(request.query_params.get("done", ""))
    if text is None:
        return None
    for name in ("n", "m"):
        number = request.query_params.get(name, "")
        known = number.isascii() and number.isdigit() and len(number) < _MOST_DIGITS
        text = text.replace(f"{{{name}}}", f"{int(number):,}" if known else "some")
    return text


def _fingerprint(name: str) -> str:
    """A static file's address that changes with its content, so that it can be kept."""
    data = files("headwater.web").joinpath("static", name).read_bytes()
    return f"/static/{name}?v={hashlib.sha256(data).hexdigest()[:12]}"
