"""Accepting, dismissing and undoing suggestions, which change settings of a source (W6, Y4, Y5)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from headwater.errors import UsageError
from headwater.model import Source, Suggestion, SuggestionKind
from headwater.operations.sources import CheckPoll, check_requested_poll, edited_as
from headwater.rules.outcome import moved_source, replaced_feed
from headwater.rules.url_secrets import masked
from headwater.store import Store
from headwater.store.audit import describe
from headwater.watch_settings import WatchSettings


async def accept(
    store: Store,
    source: Source,
    suggestion_id: str,
    now: datetime,
    *,
    check_poll: CheckPoll | None = None,
) -> Source:
    """Change a source as a suggestion says; if it was accepted before, nothing is changed.

    `check_poll` refuses a change that requests a poll too soon (Y8).
    """
    suggestion, state = await store.suggestions.get(source.id, suggestion_id)
    if state == "accepted":
        return source
    if state == "dismissed":
        raise UsageError("the suggestion was dismissed or undone; edit the source instead")

    def change(before: Source) -> Source:
        return _CHANGES[suggestion.kind](before, suggestion, now)

    await check_requested_poll(store, source.id, change, check_poll)
    _describe("suggestion.accept", source, suggestion)
    accepted = await store.sources.accept_suggestion(source.id, suggestion_id, change, now)
    return source if accepted is None else accepted


async def dismiss(store: Store, source: Source, suggestion_id: str) -> None:
    """Close a suggestion; the same one is not made again for this source."""
    suggestion, _ = await store.suggestions.get(source.id, suggestion_id)
    _describe("suggestion.dismiss", source, suggestion)
    await store.suggestions.dismiss(source.id, suggestion_id)


async def undo(
    store: Store,
    source: Source,
    suggestion_id: str,
    now: datetime,
    *,
    check_poll: CheckPoll | None = None,
) -> Source:
    """Give a source the URL again that it had before a suggestion; that is not made again.

    `check_poll` refuses a change that requests a poll too soon (Y8).
    """
    suggestion, state = await store.suggestions.get(source.id, suggestion_id)
    previous, is_move = suggestion.previous_url, suggestion.kind is SuggestionKind.MOVE
    if state != "accepted" or previous is None or "url" not in suggestion.detail:
        raise UsageError("only an accepted change of the URL can be undone")

    def change(before: Source) -> Source:
        if before.url != suggestion.detail["url"]:
            raise UsageError("the URL was changed since; edit the source instead")
        restored = moved_source if is_move else replaced_feed
        return restored(before, url=previous, now=now)

    await check_requested_poll(store, source.id, change, check_poll)
    _describe("suggestion.undo", source, suggestion)
    return await store.sources.undo_suggestion(source.id, suggestion_id, change)


def summary(suggestion: Suggestion) -> str:
    """What a suggestion proposes, in one line."""
    detail = suggestion.detail
    match suggestion.kind:
        case SuggestionKind.MOVE:
            text = f"moved to {detail['url']}"
            if "polls" in detail:
                text += f": {detail['polls']} polls since {detail['since']:%Y-%m-%d} led there"
        case SuggestionKind.FEED:
            text = f"use the feed {detail['url']}, found on {masked(detail['found_on'])}"
        case _:
            lines = ", ".join(f"“{line}”" for line in detail["ignore"])
            return f"ignore {lines}: each of the last three posts of the page differs only in this"
    other = detail.get("duplicate_of")
    return text if other is None else f"{text}; source {other} of the podcast has this URL"


def _describe(action: str, source: Source, suggestion: Suggestion) -> None:
    describe(action, f"source {source.id}", kind=suggestion.kind, suggestion=suggestion.id)


def _with_ignored_lines(source: Source, suggestion: Suggestion, now: datetime) -> Source:
    """The source with further lines that may change without a new post (W6)."""
    watch = source.watch or WatchSettings()
    added = tuple(line for line in suggestion.detail["ignore"] if line not in watch.ignore)
    try:
        watch = replace(watch, ignore=(*watch.ignore, *added))
    except ValueError as error:
        raise UsageError(str(error), field="watch") from error
    return edited_as({"watch": watch}, now, source)


def _moved(source: Source, suggestion: Suggestion, now: datetime) -> Source:
    return moved_source(source, url=suggestion.detail["url"], now=now)


def _with_found_feed(source: Source, suggestion: Suggestion, now: datetime) -> Source:
    return replaced_feed(source, url=suggestion.detail["url"], now=now)


_CHANGES: Mapping[SuggestionKind, Callable[[Source, Suggestion, datetime], Source]] = {
    SuggestionKind.IGNORE: _with_ignored_lines,
    SuggestionKind.MOVE: _moved,
    SuggestionKind.FEED: _with_found_feed,
}
