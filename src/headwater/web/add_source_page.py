"""The pages for adding a source: address, preview, settings."""

from collections import Counter
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from headwater.errors import (
    DuplicateUrl,
    FetchError,
    NotFound,
    SecretError,
    Stopping,
    TooMany,
    TooMuch,
    UsageError,
)
from headwater.model import SourceType
from headwater.operations.add_source import duplicate_of, find_feed
from headwater.operations.preview import Preview
from headwater.rules.admission import article_age
from headwater.rules.feed_search import front_page
from headwater.rules.pasted_addresses import as_url, resolve
from headwater.source_settings import SETTINGS, FullText
from headwater.watch_settings import WatchSettings
from headwater.web.failure_texts import fetch_problem
from headwater.web.forms import fields_of, one
from headwater.web.humanize import sentence
from headwater.web.rendering import DashboardPage, PodcastPage, done
from headwater.web.texts import TEXTS
from headwater.web.watch_form import watch_fields, watch_in

_INTERVAL = str(SETTINGS["poll_interval_minutes"].default)
_MAX_DIGITS = 12  # digits
_STATUSES: dict[type[UsageError], int] = {TooMuch: 413, TooMany: 429}


@dataclass(frozen=True, slots=True)
class SourceDraft:
    """The form of a new source, with errors by field."""

    url: str = ""
    type: str = ""
    label: str = ""
    interval: str = _INTERVAL
    history: bool = True
    full_text: bool = False
    again: bool = False  # add it although the podcast has this address
    watch: WatchSettings | None = None  # the chosen parts of a page
    errors: Mapping[str, str] = field(default_factory=dict)

    @property
    def watch_values(self) -> Mapping[str, str]:
        """The chosen parts as form fields."""
        return watch_fields(self.watch)


routes = APIRouter(prefix="/podcasts/{p}/add", include_in_schema=False)


@routes.get("")
async def ask(page: PodcastPage) -> Response:
    """Show the form for an address."""
    return _form(page, SourceDraft())


@routes.get("/{step}")
async def again(p: str, step: str) -> Response:  # noqa: ARG001
    """Redirect a step that is opened by its URL to the first one."""
    return RedirectResponse(f"/podcasts/{p}/add", status_code=303)


@routes.post("")
async def preview(page: PodcastPage) -> Response:
    """Fetch an address and show a preview; nothing is stored."""
    fields = await fields_of(page.request)
    draft = SourceDraft(url=one(fields, "url"), type=one(fields, "type"))
    try:
        draft = replace(draft, url=as_url(draft.url))
        settings: dict[str, Any] = {"url": draft.url, "type": _type(draft.type)}
        if "parts" in fields:  # a click on a part of the page: the rest of the form stays
            draft = replace(draft, label=one(fields, "label"), interval=one(fields, "interval"))
            settings["watch"] = watch_in(fields)
        if page.app.previews.needs_visit(settings, page.podcast):
            _check_visit(page, draft)
    except UsageError as error:
        return _refused(page, draft, error)
    previewer = page.app.previewer(page.service)
    found = page.app.previews.with_click(
        previewer, settings, page.podcast, toggle=one(fields, "toggle"), only=one(fields, "only")
    )
    return await _found(page, draft, found)


@routes.post("/search")
async def search(page: PodcastPage) -> Response:
    """Search for a feed at common addresses of the site."""
    draft = SourceDraft(url=one(await fields_of(page.request), "url"))
    try:
        _check_visit(page, draft)
    except UsageError as error:
        return _refused(page, draft, error)
    previewer = page.app.previewer(page.service)
    found = find_feed(page.app.previews, previewer, page.podcast, draft.url)
    return await _found(page, draft, found)


@routes.post("/save")
async def save(page: PodcastPage) -> Response:
    """Add the source and request a poll, or show the errors in its settings."""
    app, fields = page.app, await fields_of(page.request)
    values: dict[str, Any] = {
        name: one(fields, name) for name in ("url", "type", "label", "interval")
    }
    values |= {name: bool(one(fields, name)) for name in ("history", "full_text", "again")}
    draft = SourceDraft(**values)
    try:
        draft = replace(draft, watch=watch_in(fields))
        settings = {  # an empty field means the default
            "type": _type(draft.type),
            "url": draft.url,
            "label": draft.label or None,
            "poll_interval_minutes": _minutes(draft.interval),
            "include_history": draft.history,
            "full_text": FullText.ON if draft.full_text else FullText.OFF,
            "watch": draft.watch,
        }
        _check_visit(page, draft)
        visitor = app.visitor_for(page.service, None)  # counted already
        added = await app.additions.add(
            page.podcast, settings, visitor, unique=not draft.again, poll=True
        )
    except NotFound:
        raise
    except DuplicateUrl as error:
        return _settings_page(page, draft, status=409, exists=error.source_id)
    except (FetchError, SecretError) as error:
        return await _failed(page, draft, error)
    except UsageError as error:
        text = str(error).replace("poll_interval_minutes must be", "The interval must be")
        wrong = replace(draft, errors={error.field or "save": sentence(text)})
        return _settings_page(page, wrong, status=_STATUSES.get(type(error), 422))
    notice = "source-added"
    if added.subject is not None and added.outcome is not None:
        notice = "source-read"
        await page.service.publish(added.subject, added.outcome)
    else:
        app.visit_limits.pollable(page.caller_id, [added.source.id])  # its first manual poll (Y8)
        with suppress(Stopping):  # the poll is requested: the next start runs it
            await page.service.poll_now(added.source.id, wait_seconds=0)
    return done(f"/podcasts/{page.podcast.id}/sources/{added.source.id}", notice)


def _form(page: DashboardPage, draft: SourceDraft, **more: Any) -> Response:
    """Return the form for an address, with the error of the last one."""
    content: dict[str, Any] = {"problem": None, "searched": False, "draft": draft}
    return page.show("add.html", **content | more)


async def _found(
    page: DashboardPage, draft: SourceDraft, fetch: Awaitable[Preview | None]
) -> Response:
    """Return the preview that was fetched, or the form with the error."""
    try:
        preview = await fetch
    except UsageError as error:
        return _refused(page, draft, error)
    except (FetchError, SecretError) as error:
        return await _failed(page, draft, error)
    if preview is None:
        return _form(page, draft, searched=True)
    source, decisions = preview.source, preview.decisions
    title = preview.title or ""
    if source.type is SourceType.WEBSITE and decisions:
        title = decisions[0][0].title
    label = title[: SETTINGS["label"].max_length]
    age = article_age(page.podcast.max_article_age_days, page.app.policy)
    days = f"{age.days:,} day{'' if age.days == 1 else 's'}"
    texts: dict[str, str] = TEXTS["skipped_in_preview"]
    return _settings_page(
        page,
        SourceDraft(
            url=source.url,
            type=source.type.value,
            label=draft.label or label,
            interval=draft.interval,
            watch=source.watch,
        ),
        preview=preview,
        reasons=Counter(reason for _, reason in decisions),
        skip_texts={reason: text.format(days=days) for reason, text in texts.items()},
        exists=await duplicate_of(page.store, page.podcast.id, source.url, source.type),
    )


def _settings_page(page: DashboardPage, draft: SourceDraft, **more: Any) -> Response:
    content: dict[str, Any] = {"preview": None, "exists": None, "draft": draft}
    return page.show("add_preview.html", **content | more)


def _refused(page: DashboardPage, draft: SourceDraft, error: UsageError) -> Response:
    wrong = replace(draft, errors={"url": sentence(error)})
    return _form(page, wrong, status=_STATUSES.get(type(error), 422))


async def _failed(
    page: DashboardPage, draft: SourceDraft, error: FetchError | SecretError
) -> Response:
    """Return the form with the cause of a failed fetch and what to try."""
    pasted = resolve(draft.url, _type(draft.type))
    type_ = pasted.type or SourceType.RSS
    on_x = type_ is SourceType.TWITTER
    problem = fetch_problem(error, on_x=on_x)
    plain = draft.url.replace("https://", "http://", 1) if problem.try_http else None
    return _form(
        page,
        draft,
        status=422,
        problem=problem,
        on_x=on_x,
        exists=await duplicate_of(page.store, page.podcast.id, pasted.url, type_),
        http_url=plain if plain != draft.url else None,
        front_url=front_page(draft.url) if problem.try_front else None,
    )


def _check_visit(page: DashboardPage, draft: SourceDraft) -> None:
    """Raise TooMany beyond the limit of visits to the host, or UsageError for no address (Y8)."""
    host_url = resolve(draft.url, _type(draft.type)).url
    page.app.visit_limits.check_visit(page.caller_id, host_url)


def _type(name: str) -> SourceType | None:
    try:
        return SourceType(name) if name else None
    except ValueError as error:
        raise UsageError("a source is a feed, a web page or an X timeline", field="type") from error


def _minutes(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise UsageError("the interval is a whole number of minutes", field="poll_interval_minutes")
    return int(text)
