"""Events on their way from one process to another: short texts, put together again there."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import TypeAdapter, ValidationError

from headwater.engine.events import Event, EventKind
from headwater.model import (
    EPOCH,
    Failure,
    Outcome,
    PollRecord,
    Post,
    Source,
    Subject,
    Validators,
    changed,
)

LONGEST = 7900  # bytes that PostgreSQL takes in one notification, with a little to spare
_POSTS_TOGETHER = 8
_LONGEST_WORDS = 200
_UNTOLD = Post("", "", "", "", "", None, None, "", EPOCH)


@dataclass(frozen=True, slots=True)
class _Told:
    kind: EventKind
    at: datetime
    user_id: str | None = None
    source: Source | None = None
    outcome: Outcome | None = None
    new_posts: int = 0
    text: str | None = None
    seconds: float | None = None


_one, _many = TypeAdapter(_Told), TypeAdapter(list[_Told])


def texts_of(events: Iterable[Event]) -> Iterator[str]:
    """Events as few texts, each short enough for a notification."""
    room, together = LONGEST, list[bytes]()
    for event in events:
        for told in _told(event):
            text = _one.dump_json(told, exclude_defaults=True)
            if len(text) + 1 > room and together:
                yield _list_of(together)
                room, together = LONGEST, []
            if len(text) + 2 <= LONGEST:  # whoever has URLs this long goes without live news
                together.append(text)
                room -= len(text) + 1
    if together:
        yield _list_of(together)


def events_of(text: str) -> list[Event]:
    """The events of a text; none if somebody else wrote it."""
    try:
        return [_event(told) for told in _many.validate_json(text)]
    except ValidationError:
        return []


def outcome_of(record: PollRecord, source: Source) -> Outcome:
    """What a poll brought, as far as the history knows."""
    failure = None
    if record.failure_type is not None:
        kind, error = record.failure_kind or "", record.error or ""
        failure = Failure(record.failure_type, kind, error, status=record.status)
    return Outcome(
        before=source,
        source=source,
        kind=record.outcome,
        started_at=record.started_at,
        posts=(_UNTOLD,) * record.new_posts,
        skipped=record.skipped,
        failure=failure,
        status=record.status,
        size=record.size,
        duration_ms=record.duration_ms,
        redirected_to=record.redirected_to,
    )


def _list_of(texts: list[bytes]) -> str:
    return f"[{b','.join(texts).decode()}]"


def _told(event: Event) -> Iterator[_Told]:
    source = None if event.subject is None else _short(event.subject.source)
    told = _Told(
        event.kind, event.at, event.user_id, source, text=event.text, seconds=event.seconds
    )
    outcome = event.outcome
    if outcome is None:
        yield told
        return
    bare = changed(
        outcome,
        {
            "before": _short(outcome.before),
            "source": _short(outcome.source),
            "posts": (),
            "late_keys": None,
            "visits": (),
            "hold": None,
            "fence": None,
        },
    )
    if event.kind is not EventKind.POST_CREATED:
        yield replace(told, outcome=bare, new_posts=len(outcome.posts))
        return
    for first in range(0, len(outcome.posts), _POSTS_TOGETHER):
        posts = tuple(map(_head, outcome.posts[first : first + _POSTS_TOGETHER]))
        yield replace(told, outcome=replace(bare, posts=posts))


def _short(source: Source) -> Source:
    """A source without what only its own polls need."""
    return changed(
        source, {"validators": Validators(), "body_hash": None, "seen_keys": (), "hold": None}
    )


def _head(post: Post) -> Post:
    return replace(post, body="", title=post.title[:_LONGEST_WORDS])


def _event(told: _Told) -> Event:
    subject = None
    if told.source is not None and told.user_id is not None:
        subject = Subject(told.source, told.user_id)
    outcome = told.outcome
    if outcome is not None and told.new_posts:
        outcome = replace(outcome, posts=(_UNTOLD,) * told.new_posts)
    return Event(told.kind, told.at, subject, outcome, told.text, told.seconds)
