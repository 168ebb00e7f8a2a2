"""Moved sources: which permanent redirects are suggested as the new URL of a source (Y4)."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from headwater.model import Post, Redirect, Source, SourceType, Suggestion, SuggestionKind
from headwater.rules.admission import suggestion_id
from headwater.rules.full_text import MIN_SHARED, shared_words, wall_in
from headwater.rules.page_versions import PageVersions
from headwater.rules.urls import is_login_url

MIN_POLLS = 5  # that followed a redirect before it is suggested
MIN_TIME = timedelta(days=3)  # since the first of them


def is_other_page(
    source: Source, moved_to: str | None, post: Post | None, before: PageVersions | None
) -> bool:
    """Whether a redirect leads to another page than the one that is watched, such as a login.

    A feed is known by its format. A page is compared with its last version; `post` is the new
    one, None if the page is unchanged.
    """
    if source.type is not SourceType.WEBSITE or moved_to is None:
        return False
    if is_login_url(moved_to):
        return True
    if post is None:
        return False
    text = post.page_text or post.body
    if wall_in(text) is not None:
        return True
    previous = _last_text(before)
    return previous is not None and shared_words(previous, text) < MIN_SHARED


def _last_text(before: PageVersions | None) -> str | None:
    if before is None:
        return None
    if before.text is not None or not before.posts:
        return before.text
    return before.posts[0].page_text or before.posts[0].body


def followed_redirect(
    source: Source, moved_to: str | None, now: datetime, *, is_other: bool
) -> tuple[Redirect | None, Mapping[SuggestionKind, Suggestion | None]]:
    """What a successful poll learns about a redirect, and what it changes in the suggestions.

    `moved_to`: where permanent redirects led; None: there were none, or not all were permanent.
    Another target, or a poll without a redirect, starts again.
    """
    known = source.redirect
    was_suggested = known is not None and known.is_suggested
    withdrawn = {SuggestionKind.MOVE: None} if was_suggested else {}
    if moved_to is None:
        return None, withdrawn
    if is_other:
        return Redirect(moved_to, now, polls=0), withdrawn
    if known is None or known.url != moved_to:
        return Redirect(moved_to, now, polls=1), withdrawn
    if known.polls == 0:  # it led to something else once: that is not a move
        return known, {}
    redirect = replace(known, polls=known.polls + 1)
    if redirect.is_suggested or not is_confirmed(redirect, now):
        return redirect, {}
    redirect = replace(redirect, is_suggested=True)
    return redirect, {SuggestionKind.MOVE: move_suggestion(source, redirect, now)}


def is_confirmed(redirect: Redirect, now: datetime) -> bool:
    """Whether enough polls over enough time followed a redirect."""
    return redirect.polls >= MIN_POLLS and now - redirect.since >= MIN_TIME


def move_suggestion(source: Source, redirect: Redirect, now: datetime) -> Suggestion:
    """The suggestion to use the URL that a source redirects to."""
    id_ = suggestion_id(source.id, SuggestionKind.MOVE, redirect.url)
    return Suggestion(id_, SuggestionKind.MOVE, {"url": redirect.url}, now)
