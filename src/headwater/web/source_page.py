"""The page of a source: status, next poll, last polls, settings, actions."""

from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, RedirectResponse, Response

from headwater.errors import NotFound, TooMany, UsageError
from headwater.model import Health, OutcomeKind, Source, SourceType
from headwater.operations import suggestions
from headwater.operations.host_views import lane_status
from headwater.operations.manual_polls import PollReport, poll_one
from headwater.operations.post_diffs import later_versions
from headwater.operations.source_views import card_of, explanation_of
from headwater.operations.sources import edit_source, remove_source
from headwater.rules.politeness import delay_origin, lane_of
from headwater.source_settings import SettingValues
from headwater.web.explanation_texts import shown_steps
from headwater.web.failure_texts import text_for
from headwater.web.forms import fields_of
from headwater.web.humanize import duration, new_posts, sentence, skips
from headwater.web.page_context import source_at
from headwater.web.rendering import DashboardPage, PodcastPage, done
from headwater.web.schedule_chart import schedule_chart_of
from headwater.web.source_form import SettingsForm, form_fields, form_of, read_form

_POLLS_IN_CHART = 60
_ROWS = 15  # of polls in the table
_DAYS = 60  # on their own page: counting thousands of polls takes a while
_POSTS = 8


routes = APIRouter(prefix="/podcasts/{p}/sources/{s}", include_in_schema=False)


async def _source(page: PodcastPage, s: str) -> Source:
    return await source_at(page.store, page.podcast, s)


PageSource = Annotated[Source, Depends(_source)]


@routes.get("")
async def show(page: PodcastPage, source: PageSource) -> Response:
    """Show one source."""
    return await _shown(page, source)


@routes.get("/days")
async def days(page: PodcastPage, source: PageSource) -> Response:
    """Show the polls of a source counted by day (C4)."""
    found = await page.store.poll_days.newest(source.id, limit=_DAYS)
    url = _page_url(source)
    return page.show("source_days.html", source=source, url=url, days=found, most=_DAYS)


@routes.get("/settings")
async def settings(p: str, s: str) -> Response:
    """Redirect a reload of a rejected form to the page."""
    return RedirectResponse(f"/podcasts/{p}/sources/{s}", status_code=303)


@routes.post("/settings")
async def save(page: PodcastPage, source: PageSource) -> Response:
    """Save the settings, or show the errors in them.

    A source that Headwater has given up on is enabled when its address is corrected.
    """
    form, changes = read_form(await fields_of(page.request))
    is_corrected = source.disabled_reason is not None and (
        (changes.get("type", source.type), changes.get("url", source.url))
        != (source.type, source.url)
    )
    if not form.errors:
        try:
            await _edit(page, source, {**changes, "enabled": True} if is_corrected else changes)
        except (NotFound, TooMany):  # removed in the meantime, or polled just now (Y8)
            raise
        except UsageError as error:
            form = replace(form, errors={error.field or "url": sentence(error)})
    if form.errors:
        return await _shown(page, source, form)
    saved = done(_page_url(source), "source-corrected" if is_corrected else "source-saved")
    saved.headers["Location"] += "#top"  # the notice is at the top, the form at the end of the page
    return saved


@routes.post("/poll")
async def poll(page: PodcastPage, source: PageSource) -> Response:
    """Poll now; the script gets the outcome as JSON, other clients a redirect (P10)."""
    for_script = page.request.headers.get("accept") == "application/json"
    try:
        page.app.visit_limits.check_poll(page.caller_id, source)
    except TooMany as error:
        if not for_script:
            raise
        headers = {"Retry-After": str(error.retry_seconds)}
        content = {"tone": "warn", "text": sentence(error)}
        return JSONResponse(content, status_code=429, headers=headers)
    notice = _poll_notice(await poll_one(page.service, source, wait=True))
    if for_script:
        return JSONResponse({"tone": notice.tone, "text": notice.text})
    return done(_page_url(source), notice.name, notice.number)


@routes.post("/suggestions/{n}/accept")
async def accept_suggestion(page: PodcastPage, source: PageSource, n: str) -> Response:
    """Change the settings as a suggestion says (W6, Y4, Y5)."""
    check_poll = page.app.visit_limits.check_poll_for(page.caller_id)
    now = page.app.clock.now()
    await suggestions.accept(page.store, source, n, now, check_poll=check_poll)
    return done(_page_url(source), "suggestion-accepted")


@routes.post("/suggestions/{n}/dismiss")
async def dismiss_suggestion(page: PodcastPage, source: PageSource, n: str) -> Response:
    """Dismiss a suggestion."""
    await suggestions.dismiss(page.store, source, n)
    return done(_page_url(source), "suggestion-dismissed")


@routes.post("/suggestions/{n}/undo")
async def undo_suggestion(page: PodcastPage, source: PageSource, n: str) -> Response:
    """Restore the address that an accepted suggestion changed (Y4)."""
    check_poll = page.app.visit_limits.check_poll_for(page.caller_id)
    now = page.app.clock.now()
    await suggestions.undo(page.store, source, n, now, check_poll=check_poll)
    return done(_page_url(source), "suggestion-undone")


@routes.post("/enable")
async def enable(page: PodcastPage, source: PageSource) -> Response:
    """Enable the source: its failures are reset and a poll is requested (F5)."""
    await _edit(page, source, {"enabled": True})
    return done(_page_url(source), "source-enabled")


@routes.post("/disable")
async def disable(page: PodcastPage, source: PageSource) -> Response:
    """Disable the source: only manual polls run."""
    await _edit(page, source, {"enabled": False})
    return done(_page_url(source), "source-disabled")


@routes.post("/delete")
async def delete(page: PodcastPage, source: PageSource) -> Response:
    """Delete the source with its posts, articles and history."""
    await remove_source(page.store, source)
    return done(f"/podcasts/{source.podcast_id}/sources", "source-deleted")


async def _edit(page: DashboardPage, source: Source, changes: SettingValues) -> None:
    allowed = page.app.settings.fetch.allow_private_networks
    check_poll = page.app.visit_limits.check_poll_for(page.caller_id)
    now = page.app.clock.now()
    await edit_source(page.store, source.id, changes, now, allowed=allowed, check_poll=check_poll)


async def _shown(page: DashboardPage, source: Source, form: SettingsForm | None = None) -> Response:
    """Return the page, with the errors of a submitted form."""
    store, policy, now = page.store, page.app.policy, page.app.clock.now()
    lane = lane_of(source, page.podcast.user_id) or ""
    state, lane_now = lane_status(page.service, lane, source.id)
    card = await card_of(store, source.id, now, policy, polls=_POLLS_IN_CHART)
    explanation = await explanation_of(
        store, source.id, now, policy, look=lambda *_: (state, lane_now)
    )
    newest = await store.posts.page(source_id=source.id, limit=_POSTS)
    current, polls = card.view.source, card.polls
    failure_kind = current.permanent_kind
    if card.view.health is not Health.DISABLED:
        failure_kind = next((p.failure_kind for p in polls if p.failure_kind), failure_kind)
    own_limit = current.max_failures
    return page.show(
        "source.html",
        status=200 if form is None else 422,
        form=form or form_of(source),
        url=_page_url(source),
        source=current,
        view=card.view,
        failure_kind=failure_kind,
        failure=text_for(failure_kind, on_x=current.type is SourceType.TWITTER),
        max_failures=policy.max_failures if own_limit is None else own_limit,
        explanation=explanation,
        steps=shown_steps(explanation.steps),
        in_storm=any(step.what == "failure storm" for step in explanation.steps),
        chart=schedule_chart_of(current, explanation, now, policy),
        lane_now=lane_now,
        all_polls=polls,
        polls=polls[:_ROWS],
        durations=sorted(poll.duration_ms for poll in polls),
        posts=newest.items,
        later_versions=await later_versions(store, newest.items, {source.id: source}),
        delay_origin=delay_origin(current, policy),
        main_fields=form_fields("main", policy),
        more_fields=form_fields("more", policy),
    )


def _page_url(source: Source) -> str:
    return f"/podcasts/{source.podcast_id}/sources/{source.id}"


@dataclass(frozen=True, slots=True)
class PollNotice:
    """The outcome of a poll: complete text for the script, a notice for a reloaded page."""

    tone: str  # good, warn, bad
    text: str
    name: str  # of the notice
    number: int | None = None


def _poll_notice(report: PollReport | None) -> PollNotice:
    """Return the notice for a report; None: the poll still waits for its host (P10)."""
    if report is None:
        text = "The check waits for its site and starts as soon as possible."
        return PollNotice("warn", text, "poll-waits")
    if report.outcome is OutcomeKind.FAILED:
        error = report.error or "unknown reason"
        if report.status is None and error.startswith("on hold"):
            return PollNotice("warn", f"Nothing was sent: the site is {error}.", "poll-held")
        return PollNotice("bad", f"The check failed: {error}", "polled-failed")
    skipped_text = skips(report.skipped)
    rest = f" Not stored: {skipped_text}." if skipped_text else ""
    rest += f" It took {duration(report.duration_ms)}."
    if report.outcome is OutcomeKind.STORED:
        notice = "polled-one" if report.new_posts == 1 else "polled-stored"
        text = f"Checked: {new_posts(report.new_posts)}.{rest}"
        return PollNotice("good", text, notice, report.new_posts)
    text, skipped = f"Checked: nothing new.{rest}", sum(report.skipped.values())
    if skipped:
        return PollNotice("good", text, "polled-skipped", skipped)
    return PollNotice("good", text, "polled-unchanged")
