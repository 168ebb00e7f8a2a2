"""The import page: sources from an OPML file or text."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from headwater.errors import NotFound, TooMany, TooMuch, UsageError
from headwater.operations.bulk_changes import Batch, BatchAction, run_batch
from headwater.operations.opml_import import Imported, ImportOutcome
from headwater.rules.admission import article_age
from headwater.web.forms import parts_of
from headwater.web.humanize import sentence
from headwater.web.rendering import PodcastPage

_MAX_SHOWN = 500  # lines of each outcome
_MAX_URL = 300
_MAX_KEPT = 200_000  # characters of pasted text that are shown again
_MIB = 1024 * 1024
_STATUSES: dict[type[UsageError], int] = {TooMuch: 413, TooMany: 429}
_UTF8 = b"\xef\xbb\xbf"  # pasted text is UTF-8, whatever its XML declaration says


routes = APIRouter(prefix="/podcasts/{p}/import", include_in_schema=False)


@routes.get("")
async def ask(page: PodcastPage) -> Response:
    """Show the form."""
    return _form(page)


@routes.post("")
async def take(page: PodcastPage) -> Response:
    """Add the feeds that the podcast does not have, and show the outcome of each line."""
    app, podcast, parts = page.app, page.podcast, await parts_of(page.request)
    file, text = parts.get("file", b""), parts.get("text", b"").strip()
    history = bool(parts.get("history"))
    try:
        if not file and not text:
            raise UsageError("choose a file, or paste a list")
        lines = await app.imports.take(podcast, file or _UTF8 + text, include_history=history)
    except NotFound:
        raise
    except UsageError as error:
        status = _STATUSES.get(type(error), 422)
        pasted = parts.get("text", b"").decode("utf-8", "replace")
        kept = pasted if len(pasted) <= _MAX_KEPT else ""
        return _form(page, status=status, error=sentence(error), text=kept, history=history)
    polled = bool(parts.get("poll"))
    if polled:
        added = [line.source_id for line in lines if line.outcome is ImportOutcome.ADDED]
        batch = Batch(BatchAction.POLL, ids=[id_ for id_ in added if id_ is not None])
        await run_batch(app.store, podcast.id, batch, app.clock)
    groups = {each: [line for line in lines if line.outcome is each] for each in ImportOutcome}
    shown = [(outcome, len(found), _shown(found)) for outcome, found in groups.items() if found]
    return _form(page, groups=shown, polled=polled)


def _form(page: PodcastPage, **more: Any) -> Response:
    limits = page.app.settings.limits
    content: dict[str, Any] = {
        "groups": None,
        "error": None,
        "polled": False,
        "history": True,
        "age_days": article_age(page.podcast.max_article_age_days, page.app.policy).days,
        "text": "",
        "most_sources": limits.max_sources_per_user,
        "most_bytes": limits.max_request_bytes,
        "most_mib": f"{limits.max_request_bytes / _MIB:.3g}",
    }
    return page.show("import.html", **content | more)


def _shown(lines: Sequence[Imported]) -> Sequence[Imported]:
    """Return the first lines with shortened URLs: a rejected one may have any length."""
    return [
        line if len(line.url) <= _MAX_URL else replace(line, url=f"{line.url[:_MAX_URL]}…")
        for line in lines[:_MAX_SHOWN]
    ]
