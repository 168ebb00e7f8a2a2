"""Between rows and nouns: moments are epoch milliseconds in both databases."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from headwater.model import (
    EPOCH,
    Article,
    FailureType,
    Hold,
    HostState,
    Podcast,
    Post,
    Source,
    SourceType,
    User,
    Validators,
    made,
)
from headwater.store.database import Row

SOURCE_TYPES = {kind.value: kind for kind in SourceType}
_FAILURE_TYPES: dict[str | None, FailureType | None] = {kind.value: kind for kind in FailureType}
_FAILURE_TYPES[None] = None
_NO_VALIDATORS = Validators()
_MILLISECOND = timedelta(milliseconds=1)
_decoded = json.JSONDecoder().raw_decode  # `json.loads` looks for blanks around it first

SETTINGS_COLUMNS = (
    "id podcast_id type url created_at label enabled poll_interval_minutes poll_delay_seconds "
    "max_failures max_backoff_hours late_entry_hours aggregate include_history"
).split()
STATE_COLUMNS = (
    "last_polled last_success_at last_seen_id consecutive_failures last_failure_type "
    "failing_since last_error disabled_reason host first_poll_done requested_at "
    "permanent_failures permanent_kind etag last_modified body_hash seen_keys late_keys_kept "
    "hold_until hold_set_at hold_reason generation"
).split()
_STATE_FIELDS = (
    "last_polled last_success_at last_seen_id consecutive_failures last_failure_type "
    "failing_since last_error disabled_reason host first_poll_done requested_at "
    "permanent_failures permanent_kind validators body_hash seen_keys late_keys_kept hold "
    "generation"
).split()
SOURCE_COLUMNS = (*SETTINGS_COLUMNS, *STATE_COLUMNS)
POST_COLUMNS = "id source_id title body url published_at author content_hash created_at".split()
ARTICLE_COLUMNS = (*POST_COLUMNS, "is_processed")


def columns(names: Iterable[str], table: str = "") -> str:
    """A list of columns for a statement."""
    prefix = f"{table}." if table else ""
    return ", ".join(prefix + name for name in names)


def to_ms(moment: datetime | None) -> int | None:
    """A moment as it is stored."""
    return None if moment is None else (moment - EPOCH) // _MILLISECOND


def from_ms(value: int | None) -> datetime | None:
    """A stored moment as the rules know it."""
    return None if value is None else EPOCH + value * _MILLISECOND


def moment(value: int) -> datetime:
    """A stored moment that is always there."""
    return EPOCH + value * _MILLISECOND


def source_from(row: Sequence[Any]) -> Source:
    """A source from the columns of SOURCE_COLUMNS."""
    (
        id_, podcast_id, type_, url, created_at, label, enabled, interval, delay,
        max_failures, max_backoff_hours, late_entry_hours, aggregate, include_history,
        last_polled, last_success_at, last_seen_id, failures, failure_type,
        failing_since, last_error, disabled_reason, host, first_poll_done, requested_at,
        permanent_failures, permanent_kind, etag, last_modified, body_hash, seen_keys,
        late_keys_kept, hold_until, hold_set_at, hold_reason, generation,
    ) = row  # fmt: skip
    validators = Validators(etag, last_modified) if etag or last_modified else _NO_VALIDATORS
    return made(Source, {
        "id": id_, "podcast_id": podcast_id, "type": SOURCE_TYPES[type_], "url": url,
        "created_at": moment(created_at), "label": label, "enabled": bool(enabled),
        "poll_interval_minutes": interval, "poll_delay_seconds": delay,
        "max_failures": max_failures, "max_backoff_hours": max_backoff_hours,
        "late_entry_hours": late_entry_hours,
        "aggregate": None if aggregate is None else bool(aggregate),
        "include_history": bool(include_history), "last_polled": from_ms(last_polled),
        "last_success_at": from_ms(last_success_at), "last_seen_id": last_seen_id,
        "consecutive_failures": failures, "last_failure_type": _FAILURE_TYPES[failure_type],
        "failing_since": from_ms(failing_since), "last_error": last_error,
        "disabled_reason": disabled_reason, "host": host, "first_poll_done": bool(first_poll_done),
        "requested_at": from_ms(requested_at), "permanent_failures": permanent_failures,
        "permanent_kind": permanent_kind, "validators": validators, "body_hash": body_hash,
        "seen_keys": tuple(_decoded(seen_keys)[0]) if seen_keys else (),
        "late_keys_kept": bool(late_keys_kept),
        "hold": hold_from(hold_until, hold_set_at, hold_reason), "generation": generation,
    })  # fmt: skip


def settings_of(source: Source) -> dict[str, Any]:
    """The columns that a person owns."""
    return {
        "id": source.id,
        "podcast_id": source.podcast_id,
        "type": source.type.value,
        "url": source.url,
        "created_at": to_ms(source.created_at),
        "label": source.label,
        "enabled": source.enabled,
        "poll_interval_minutes": source.poll_interval_minutes,
        "poll_delay_seconds": source.poll_delay_seconds,
        "max_failures": source.max_failures,
        "max_backoff_hours": source.max_backoff_hours,
        "late_entry_hours": source.late_entry_hours,
        "aggregate": source.aggregate,
        "include_history": source.include_history,
    }


def state_of(source: Source) -> dict[str, Any]:
    """The columns that polls own."""
    row: dict[str, Any] = {}
    for field in _STATE_FIELDS:
        row |= columns_of(source, field)
    return row


def columns_of(source: Source, field: str) -> dict[str, Any]:
    """The column, or columns, that keep one field of a source's state."""
    value = getattr(source, field)
    if field == "validators":
        return {"etag": value.etag, "last_modified": value.last_modified}
    if field == "hold":
        return {
            "hold_until": value and to_ms(value.until),
            "hold_set_at": value and to_ms(value.set_at),
            "hold_reason": value and value.reason,
        }
    if field == "seen_keys":
        return {field: json.dumps(value) if value else None}
    return {field: to_ms(value) if isinstance(value, datetime) else value}


def post_from(row: Row) -> Post:
    """A post from the columns of POST_COLUMNS."""
    id_, source_id, title, body, url, published_at, author, content_hash, created_at = row
    return Post(
        id_, source_id, title, body, url, from_ms(published_at), author, content_hash,
        moment(created_at),
    )  # fmt: skip


def article_from(row: Row, post_ids: tuple[str, ...] = ()) -> Article:
    """An article from the columns of ARTICLE_COLUMNS."""
    *common, is_processed = row
    post = post_from(tuple(common))
    return Article(
        post.id, post.source_id, post.title, post.body, post.url, post.published_at, post.author,
        post.content_hash, post.created_at, bool(is_processed), post_ids,
    )  # fmt: skip


def content_of(piece: Post | Article) -> dict[str, Any]:
    """The columns that posts and articles share."""
    return {
        "id": piece.id,
        "source_id": piece.source_id,
        "title": piece.title,
        "body": piece.body,
        "url": piece.url,
        "published_at": to_ms(piece.published_at),
        "author": piece.author,
        "content_hash": piece.content_hash,
        "created_at": to_ms(piece.created_at),
    }


def user_from(row: Row) -> User:
    """A user from id, name, created_at."""
    return User(row[0], row[1], moment(row[2]))


def podcast_from(row: Row) -> Podcast:
    """A podcast from id, user_id, name, created_at, max_article_age_days, dedupe_across_sources."""
    return Podcast(row[0], row[1], row[2], moment(row[3]), row[4], bool(row[5]))


def hold_from(until: int | None, set_at: int | None, reason: str | None) -> Hold | None:
    """A hold from its three columns."""
    if until is None or set_at is None:
        return None
    return Hold(moment(until), moment(set_at), reason or "")


def host_from(row: Row) -> HostState:
    """What is remembered of a lane, from all columns of `hosts`."""
    lane, next_at, next_set_at, until, hold_set_at, reason, success_at, resolved_at = row
    return HostState(
        lane, from_ms(next_at), from_ms(next_set_at), hold_from(until, hold_set_at, reason),
        from_ms(success_at), from_ms(resolved_at),
    )  # fmt: skip
