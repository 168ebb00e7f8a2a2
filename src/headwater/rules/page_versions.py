"""Versions of a watched page: what a poll compares with what was stored before (W5, W6)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from headwater.model import Post, Source, SourceType, Suggestion, SuggestionKind
from headwater.rules.admission import Known, NewByDate, hash_prefix, suggestion_id
from headwater.rules.ignored_lines import kept_lines, on_one_line
from headwater.rules.markdown_text import markdown_of_text
from headwater.rules.page_noise import VERSIONS, noisy_lines
from headwater.rules.text_diff import DiffPart, additions, text_diff
from headwater.watch_settings import Delivery

STORED_VERSIONS = VERSIONS - 1  # that a new version is compared with


@dataclass(frozen=True, slots=True)
class PageVersions:
    """What was stored of a page before."""

    posts: Sequence[Post] = ()  # the last ones, newest first
    text: str | None = None  # of the last version, where posts have additions only


def is_new_version(source: Source, dated: NewByDate, known: Known) -> bool:
    """Whether a page differs from all that was stored of it: only then versions are compared."""
    return source.type is SourceType.WEBSITE and any(
        hash_prefix(one.content_hash) not in known.hash_prefixes for one in dated.candidates
    )


def has_additions_only(source: Source) -> bool:
    """Whether the posts after the first one have only what is new (W5)."""
    return source.watch is not None and source.watch.deliver is Delivery.ADDITIONS


def new_text(source: Source, post: Post, before: PageVersions) -> Post | None:
    """A post as it is stored, with only what is new on its page if that is set; None: nothing is.

    Identity and `page_text` stay those of the page (W5). Ignored lines are never new, so another
    line to ignore alone makes no post (W4).
    """
    previous = before.text
    if previous is None and before.posts:
        previous = before.posts[0].page_text
    if previous is None:
        return post
    ignore = () if source.watch is None else source.watch.ignore
    old, new = ("\n".join(kept_lines(text, ignore)) for text in (previous, _text(post)))
    if old == new:
        return None
    if not has_additions_only(source):
        return post
    added = additions(old, new)
    if not added:
        return None
    markdown = markdown_of_text(added.replace("\n", "\n\n"))
    return replace(post, body=on_one_line(added), markdown=markdown)


def noise_suggestion(
    source: Source, post: Post, before: PageVersions, now: datetime
) -> Suggestion | None:
    """The suggestion to ignore the lines that make each version of a page differ (W6)."""
    posts = [*reversed(before.posts[:STORED_VERSIONS]), post]
    texts = [one.page_text for one in posts if one.page_text is not None]
    ignore = () if source.watch is None else source.watch.ignore
    lines = noisy_lines(texts, ignore)
    if not lines:
        return None
    detail = {"ignore": list(lines)}
    return Suggestion(
        suggestion_id(source.id, SuggestionKind.IGNORE, json.dumps(detail)),
        SuggestionKind.IGNORE,
        detail,
        now,
    )


def version_diff(previous: Post | None, post: Post) -> list[DiffPart]:
    """What differs between two versions of a page; without a previous one, all is added."""
    if previous is None:
        return text_diff("", _text(post))
    if previous.page_text is None or post.page_text is None:  # one was stored without its lines
        return text_diff(on_one_line(_text(previous)), on_one_line(_text(post)))
    return text_diff(previous.page_text, post.page_text)


def _text(post: Post) -> str:
    return post.body if post.page_text is None else post.page_text
