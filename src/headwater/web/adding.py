"""Adding a source: paste an address, see what is there, save it, and it is polled right away."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from headwater.app import App
from headwater.engine.service import Service
from headwater.errors import FetchError, NotFound, SecretError, TooMany, TooMuch, UsageError
from headwater.model import SourceType
from headwater.operations.adding import (
    add_and_poll,
    as_url,
    find_feed,
    front_page,
    watched_as,
)
from headwater.operations.preview import Preview
from headwater.operations.sources import MAX_LABEL, SourceSettings, type_of_url
from headwater.rules.admission import article_age
from headwater.web.findings import finding_of
from headwater.web.forms import fields_of, one
from headwater.web.place import Place, place_of
from headwater.web.rendering import Pages, done
from headwater.web.trouble import trouble_of

_INTERVAL = "30"  # minutes, as of every source that nobody says more about
_LONGEST_NUMBER = 12  # digits
Fields = Mapping[str, list[str]]


@dataclass(frozen=True, slots=True)
class Draft:
    """A source to be, as its form holds it, and what is wrong with it, by field."""

    url: str = ""
    type: str = ""
    label: str = ""
    interval: str = _INTERVAL
    history: bool = False
    errors: Mapping[str, str] = field(default_factory=dict)


def adding_routes(app: App, service: Service, pages: Pages) -> APIRouter:
    """`/podcasts/{p}/add` and what its forms lead to."""
    routes = APIRouter(prefix="/podcasts/{p}/add", include_in_schema=False)
    screen = _Screen(app, service, pages)

    @routes.get("")
    async def ask(request: Request, p: str) -> Response:
        """Ask for an address."""
        return screen.form(request, await place_of(app.store, request, p), Draft())

    @routes.get("/{step}")
    async def again(p: str, step: str) -> Response:  # noqa: ARG001
        """Lead somebody who opens a step by its address to the first one."""
        return RedirectResponse(f"/podcasts/{p}/add", status_code=303)

    @routes.post("")
    async def preview(request: Request, p: str) -> Response:
        """Visit an address and show what is there; nothing is stored."""
        place = await place_of(app.store, request, p)
        return await screen.preview(request, place, await fields_of(request))

    @routes.post("/search")
    async def search(request: Request, p: str) -> Response:
        """Look for a feed where sites usually have theirs."""
        place = await place_of(app.store, request, p)
        return await screen.search(request, place, await fields_of(request))

    @routes.post("/save")
    async def save(request: Request, p: str) -> Response:
        """Add the source and poll it right away."""
        place = await place_of(app.store, request, p)
        return await screen.save(request, place, await fields_of(request))

    return routes


class _Screen:
    """The steps of adding a source, each a page of its own."""

    def __init__(self, app: App, service: Service, pages: Pages) -> None:
        self._app = app
        self._service = service
        self._pages = pages

    def form(
        self, request: Request, place: Place, draft: Draft, *, status: int = 200, **more: Any
    ) -> Response:
        """The page that asks for an address, perhaps with what became of the last one."""
        content: dict[str, Any] = {"trouble": None, "searched": False} | more
        content["longest_label"] = MAX_LABEL
        return self._pages.show(request, "add.html", place, status=status, draft=draft, **content)

    async def preview(self, request: Request, place: Place, fields: Fields) -> Response:
        """Visit an address and show what is there, or why that cannot be told."""
        assert place.podcast is not None
        draft = Draft(url=one(fields, "url"), type=one(fields, "type"))
        try:
            draft = replace(draft, url=as_url(draft.url))
            wanted = SourceSettings(url=draft.url, type=_type(draft.type))
            previewer = self._app.previewer(self._service)
            found = await self._app.previews.preview(previewer, wanted, place.podcast)
        except UsageError as error:
            return self._refused(request, place, draft, error)
        except (FetchError, SecretError) as error:
            return await self._failed(request, place, draft, error)
        return await self._found(request, place, found)

    async def search(self, request: Request, place: Place, fields: Fields) -> Response:
        """Look for a feed at common places and show the first one."""
        assert place.podcast is not None
        draft = Draft(url=one(fields, "url"))
        try:
            previewer = self._app.previewer(self._service)
            found = await find_feed(self._app.previews, previewer, place.podcast, draft.url)
        except UsageError as error:
            return self._refused(request, place, draft, error)
        except (FetchError, SecretError) as error:
            return await self._failed(request, place, draft, error)
        if found is None:
            return self.form(request, place, draft, searched=True)
        return await self._found(request, place, found)

    async def save(self, request: Request, place: Place, fields: Fields) -> Response:
        """Add the source, or show what is wrong with its settings."""
        podcast, app = place.podcast, self._app
        assert podcast is not None
        draft = _draft(fields)
        try:
            wanted = _settings(draft)
            most = app.settings.limits.max_sources_per_user
            added = await add_and_poll(
                app.store, self._service, podcast, wanted, app.clock.now(), most=most
            )
        except NotFound:
            raise
        except UsageError as error:
            wrong = replace(draft, errors={error.field or "save": _sentence(error)})
            status = 413 if isinstance(error, TooMuch) else 422
            return self._settings_page(request, place, wrong, status=status)
        notice = "source-added" if added.is_new else "source-exists"
        return done(f"/podcasts/{podcast.id}/sources/{added.source_id}", notice)

    async def _found(self, request: Request, place: Place, found: Preview) -> Response:
        podcast = place.podcast
        assert podcast is not None
        age = article_age(podcast.max_article_age_days, self._app.policy)
        finding = finding_of(found, age)
        draft = Draft(url=finding.url, type=finding.type.value, label=finding.title)
        exists = await watched_as(self._app.store, podcast, finding.url)
        return self._settings_page(request, place, draft, finding=finding, exists=exists, age=age)

    def _settings_page(
        self, request: Request, place: Place, draft: Draft, *, status: int = 200, **more: Any
    ) -> Response:
        content: dict[str, Any] = {"finding": None, "exists": None, "age": None} | more
        content["longest_label"] = MAX_LABEL
        return self._pages.show(
            request, "add_preview.html", place, status=status, draft=draft, **content
        )

    def _refused(self, request: Request, place: Place, draft: Draft, error: UsageError) -> Response:
        status = 429 if isinstance(error, TooMany) else 422
        wrong = replace(draft, errors={"url": _sentence(error)})
        return self.form(request, place, wrong, status=status)

    async def _failed(
        self, request: Request, place: Place, draft: Draft, error: FetchError | SecretError
    ) -> Response:
        """Say in plain words why a visit failed, and what to try instead."""
        assert place.podcast is not None
        on_x = SourceType.TWITTER in (draft.type, type_of_url(draft.url))
        told = trouble_of(error, on_x=on_x)
        plain = draft.url.replace("https://", "http://", 1) if told.try_http else None
        return self.form(
            request,
            place,
            draft,
            status=422,
            trouble=told,
            on_x=on_x,
            exists=await watched_as(self._app.store, place.podcast, draft.url),
            http_url=plain if plain != draft.url else None,
            front_url=front_page(draft.url) if told.try_front else None,
        )


def _draft(fields: Fields) -> Draft:
    """What the form for a new source was sent with."""
    return Draft(
        url=one(fields, "url"),
        type=one(fields, "type"),
        label=one(fields, "label"),
        interval=one(fields, "interval"),
        history=bool(one(fields, "history")),
    )


def _settings(draft: Draft) -> SourceSettings:
    """The settings that a form asks for; what it leaves empty is as usual."""
    return SourceSettings(
        type=_type(draft.type),
        url=as_url(draft.url),
        label=draft.label or None,
        poll_interval_minutes=_minutes(draft.interval),
        include_history=draft.history,
    )


def _type(name: str) -> SourceType | None:
    try:
        return SourceType(name) if name else None
    except ValueError as error:
        raise UsageError("a source is a feed, a web page or an X timeline", field="type") from error


def _minutes(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
        raise UsageError("the interval is a whole number of minutes", field="poll_interval_minutes")
    return int(text)


def _sentence(error: UsageError) -> str:
    """An error's text as a sentence; numbers are told in the form's own words."""
    text = str(error).replace("poll_interval_minutes must be", "The interval must be")
    return f"{text[:1].upper()}{text[1:]}."
