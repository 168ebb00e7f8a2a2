"""Taking sources over from other readers as an OPML list, and giving them out as one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headwater.app import App
from headwater.errors import NotFound, TooMany, TooMuch, UsageError
from headwater.model import Podcast
from headwater.operations.batches import Batch, BatchAction, run_batch
from headwater.operations.subscriptions import Imported, ImportOutcome
from headwater.web.place import Place, place_of
from headwater.web.rendering import Pages
from headwater.web.uploads import parts_of

_MOST_SHOWN = 500  # lines of each outcome: a page of 100,000 helps nobody
_LONGEST_URL = 300
_LONGEST_KEPT = 200_000  # characters of a pasted list that are shown again
_MIB = 1024 * 1024
_STATUSES: dict[type[UsageError], int] = {TooMuch: 413, TooMany: 429}
_UTF8 = b"\xef\xbb\xbf"  # pasted text is UTF-8, whatever the list says that it was as a file


@dataclass(frozen=True, slots=True)
class Group:
    """The lines of a list with the same outcome."""

    outcome: ImportOutcome
    count: int
    shown: Sequence[Imported]

    @property
    def hidden(self) -> int:
        """How many lines there are beyond those shown."""
        return self.count - len(self.shown)


def import_routes(app: App, pages: Pages) -> APIRouter:
    """`/podcasts/{p}/import`."""
    routes = APIRouter(prefix="/podcasts/{p}/import", include_in_schema=False)
    limits = app.settings.limits

    def show(request: Request, place: Place, *, status: int = 200, **more: Any) -> Response:
        content: dict[str, Any] = {"groups": None, "error": None, "polled": False, "text": ""}
        return pages.show(
            request,
            "import.html",
            place,
            status=status,
            most_sources=limits.max_sources_per_user,
            most_bytes=limits.max_request_bytes,
            most_mib=f"{limits.max_request_bytes / _MIB:.3g}",
            **content | more,
        )

    @routes.get("")
    async def ask(request: Request, p: str) -> Response:
        """Ask for a list."""
        return show(request, await place_of(app.store, request, p))

    @routes.post("")
    async def take(request: Request, p: str) -> Response:
        """Add what the list names and is not watched yet, and say what became of each line."""
        place = await place_of(app.store, request, p)
        assert place.podcast is not None
        parts = await parts_of(request)
        try:
            lines = await _imported(app, place.podcast, parts)
        except NotFound:
            raise
        except UsageError as error:
            status = _STATUSES.get(type(error), 422)
            text = parts.get("text", b"").decode("utf-8", "replace")
            kept = text if len(text) <= _LONGEST_KEPT else ""
            return show(request, place, status=status, error=_sentence(error), text=kept)
        polled = bool(parts.get("poll"))
        if polled:
            await _request_polls(app, place.podcast, lines)
        return show(request, place, groups=grouped(lines), polled=polled)

    return routes


def grouped(lines: Sequence[Imported]) -> Sequence[Group]:
    """The lines of a list by outcome; outcomes nobody met are left out."""
    groups = {each: [line for line in lines if line.outcome is each] for each in ImportOutcome}
    return [
        Group(outcome, len(found), [_short(line) for line in found[:_MOST_SHOWN]])
        for outcome, found in groups.items()
        if found
    ]


def _short(line: Imported) -> Imported:
    """A line fit to be shown: what was rejected may be an address of any length."""
    if len(line.url) <= _LONGEST_URL:
        return line
    return replace(line, url=f"{line.url[:_LONGEST_URL]}…")


async def _imported(app: App, podcast: Podcast, parts: Mapping[str, bytes]) -> Sequence[Imported]:
    file, text = parts.get("file", b""), parts.get("text", b"").strip()
    if not file and not text:
        raise UsageError("choose a file, or paste a list")
    return await app.imports.take(podcast, file or _UTF8 + text)


async def _request_polls(app: App, podcast: Podcast, lines: Sequence[Imported]) -> None:
    added = [line.source_id for line in lines if line.outcome is ImportOutcome.ADDED]
    ids = [source_id for source_id in added if source_id is not None]
    await run_batch(app.store, podcast.id, Batch(BatchAction.POLL, ids=ids), app.clock)


def _sentence(error: UsageError) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."
