"""What can be done with a source on its page: settings, poll now, enable, disable, delete."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from headwater.app import App
from headwater.engine.service import Service
from headwater.errors import NotFound, UsageError
from headwater.model import Source, SourceType
from headwater.operations.polling import poll_one
from headwater.operations.sources import RANGES, edit_source, remove_source
from headwater.rules.lines import is_one_line
from headwater.web.forms import fields_of, one
from headwater.web.place import place_of, source_at
from headwater.web.poll_answer import answer_of
from headwater.web.rendering import done

NUMBERS = tuple(RANGES)
AGGREGATE: Mapping[str, bool | None] = {"auto": None, "always": True, "never": False}
_SHOWN = frozenset({"label", "url", "type", "poll_interval_minutes"})  # the others are folded away
_LONGEST_NUMBER = 12  # digits


@dataclass(frozen=True, slots=True)
class SettingsForm:
    """The settings as a person wrote them, and what is wrong with them, by field."""

    values: Mapping[str, str]
    errors: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_wrong_below(self) -> bool:
        """Whether something is wrong with what the page folds away."""
        return not _SHOWN.issuperset(self.errors)


Show = Callable[[Request, str, str, SettingsForm], Awaitable[Response]]  # podcast and source by id


def source_action_routes(app: App, service: Service, show: Show) -> APIRouter:
    """The forms of `/podcasts/{p}/sources/{s}`; `show` answers with the page itself."""
    routes = APIRouter(prefix="/podcasts/{p}/sources/{s}", include_in_schema=False)
    routes.include_router(_settings_routes(app, show))
    store = app.store

    @routes.post("/poll")
    async def poll(request: Request, p: str, s: str) -> Response:
        """Poll now; a script is told the outcome in words, others find it on the page (P10)."""
        source = await _source(app, request, p, s)
        told = answer_of(await poll_one(service, source, wait=True))
        if request.headers.get("accept") == "application/json":
            return JSONResponse({"tone": told.tone, "text": told.text})
        return done(page_url(source), told.notice, told.number)

    @routes.post("/enable")
    async def enable(request: Request, p: str, s: str) -> Response:
        """Start anew: failures are forgotten and a poll is asked for (F5)."""
        source = await _source(app, request, p, s)
        await edit_source(store, source.id, {"enabled": True}, app.clock.now())
        return done(page_url(source), "source-enabled")

    @routes.post("/disable")
    async def disable(request: Request, p: str, s: str) -> Response:
        """Have it polled by hand only."""
        source = await _source(app, request, p, s)
        await edit_source(store, source.id, {"enabled": False}, app.clock.now())
        return done(page_url(source), "source-disabled")

    @routes.post("/delete")
    async def delete(request: Request, p: str, s: str) -> Response:
        """Delete it with all that belongs to it."""
        source = await _source(app, request, p, s)
        await remove_source(store, source.id)
        return done(f"/podcasts/{source.podcast_id}/sources", "source-deleted")

    return routes


def page_url(source: Source) -> str:
    """Where a source is shown."""
    return f"/podcasts/{source.podcast_id}/sources/{source.id}"


def settings_of(source: Source) -> SettingsForm:
    """A form with what is set now."""
    numbers = {name: getattr(source, name) for name in NUMBERS}
    aggregate = next(word for word, value in AGGREGATE.items() if value is source.aggregate)
    return SettingsForm(
        {name: "" if number is None else str(number) for name, number in numbers.items()}
        | {
            "label": source.label or "",
            "url": source.url,
            "type": source.type.value,
            "aggregate": aggregate,
            "include_history": "yes" if source.include_history else "",
        }
    )


def read_settings(fields: Mapping[str, list[str]]) -> tuple[SettingsForm, dict[str, Any]]:
    """The form as it was sent, and the changes it asks for as far as they can be read."""
    names = ("label", "url", "type", "aggregate", "include_history", *NUMBERS)
    values = {name: one(fields, name) for name in names}
    errors: dict[str, str] = {}
    changes: dict[str, Any] = {
        "label": values["label"] or None,
        "url": values["url"],
        "include_history": bool(values["include_history"]),
    }
    for name in NUMBERS:
        try:
            changes[name] = _number(name, values[name])
        except ValueError as error:
            errors[name] = str(error)
    try:
        changes["type"] = SourceType(values["type"])
    except ValueError:
        errors["type"] = "Choose one of the three."
    if values["aggregate"] in AGGREGATE:
        changes["aggregate"] = AGGREGATE[values["aggregate"]]
    else:
        errors["aggregate"] = "Choose one of the three."
    if not values["url"]:
        errors["url"] = "A source needs an address."
    elif not is_one_line(values["url"]):
        errors["url"] = "The address is not one line of text."
    return SettingsForm(values, errors), changes


def _settings_routes(app: App, show: Show) -> APIRouter:
    routes = APIRouter()

    @routes.get("/settings")
    async def settings(p: str, s: str) -> Response:
        """Lead somebody who reloads a refused form back to the page."""
        return RedirectResponse(f"/podcasts/{p}/sources/{s}", status_code=303)

    @routes.post("/settings")
    async def save(request: Request, p: str, s: str) -> Response:
        """Change the settings, or show what is wrong with them."""
        source = await _source(app, request, p, s)
        form, changes = read_settings(await fields_of(request))
        if not form.errors:
            try:
                await edit_source(app.store, source.id, changes, app.clock.now())
            except NotFound:  # it was removed meanwhile
                raise
            except UsageError as error:
                form = replace(form, errors={error.field or "url": _sentence(str(error))})
        if form.errors:
            return await show(request, p, s, form)
        saved = done(page_url(source), "source-saved")
        saved.headers["Location"] += (
            "#top"  # where it says so; the form sits at the end of the page
        )
        return saved

    return routes


async def _source(app: App, request: Request, podcast_id: str, source_id: str) -> Source:
    """The source that a form is about, if whoever sends it may see it (U2)."""
    place = await place_of(app.store, request, podcast_id)
    return await source_at(app.store, place, source_id)


def _number(name: str, text: str) -> int | None:
    """A number within its bounds; empty means the default, which the interval does not have."""
    if not text and name != "poll_interval_minutes":
        return None
    least, most = RANGES[name]
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
        raise ValueError(f"Write a whole number from {least:,} to {most:,}.")
    if not least <= int(text) <= most:
        raise ValueError(f"It must be between {least:,} and {most:,}.")
    return int(text)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
