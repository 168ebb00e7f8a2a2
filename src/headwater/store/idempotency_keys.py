"""Idempotency keys: a repeated request gets the stored response and changes nothing.

A request reserves its key before it runs. Each of its transactions also marks the key
(`mark_written`), so that after a crash it is known whether the request took effect.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from headwater.errors import RequestRepeated, TooMany
from headwater.rules.retention import IDEMPOTENCY_KEYS
from headwater.store.database import Params, Session, Tables, writes_apart
from headwater.store.row_mapping import from_ms, to_ms

# after this time a request that has written nothing may be repeated: its process may have died.
# Longer than a visit to a new source takes
LEASE = timedelta(minutes=2)
MAX_KEYS_PER_USER = 10_000
_RETRY_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """One attempt to run a request with an idempotency key."""

    id: str  # a hash of caller, path and key
    user_id: str | None  # None: an administrator
    fingerprint: str  # a hash of query and body
    attempt: str  # random


@dataclass(frozen=True, slots=True)
class KeyRow:
    """An earlier request with the same key."""

    fingerprint: str
    created_at: datetime
    has_written: bool
    response: str | None


def mark_written(session: Session, request: KeyedRequest) -> None:
    """Note that the current transaction belongs to a request; raise if another attempt runs.

    The exception rolls the transaction back: two attempts never both take effect.
    """
    sql = """UPDATE idempotency_keys SET has_written = TRUE
        WHERE id = :id AND attempt = :attempt"""
    if not session.execute(sql, {"id": request.id, "attempt": request.attempt}):
        raise RequestRepeated("another request with the same Idempotency-Key has taken over")


def _reserve(session: Session, request: KeyedRequest, now: datetime) -> KeyRow | None:
    """Reserve a key; if an earlier request has it, return that one instead."""
    params: dict[str, Any] = {
        "id": request.id, "user": request.user_id, "fingerprint": request.fingerprint,
        "attempt": request.attempt, "now": to_ms(now), "expired": to_ms(now - IDEMPOTENCY_KEYS),
        "leased": to_ms(now - LEASE),
    }  # fmt: skip
    sql = """DELETE FROM idempotency_keys WHERE id = :id AND (created_at <= :expired
            OR (created_at <= :leased AND NOT has_written AND response IS NULL))"""
    session.execute(sql, params)
    sql = """SELECT fingerprint, created_at, has_written, response FROM idempotency_keys
        WHERE id = :id"""
    for fingerprint, created_at, has_written, response in session.fetch(sql, params):
        return KeyRow(fingerprint, from_ms(created_at), bool(has_written), response)
    if request.user_id is not None:
        _refuse_too_many(session, params)
    sql = """INSERT INTO idempotency_keys (id, user_id, fingerprint, attempt, created_at)
        VALUES (:id, :user, :fingerprint, :attempt, :now) ON CONFLICT (id) DO NOTHING"""
    if session.execute(sql, params):
        return None
    return _reserve(session, request, now)  # another process has just reserved it


def _refuse_too_many(session: Session, params: Params) -> None:
    sql = """SELECT count(*) FROM idempotency_keys
        WHERE user_id = :user AND created_at > :expired"""
    if session.fetch(sql, params)[0][0] >= MAX_KEYS_PER_USER:
        message = f"a user may send {MAX_KEYS_PER_USER:,} requests with an Idempotency-Key a day"
        raise TooMany(message, retry_seconds=_RETRY_SECONDS)


def _finish(
    session: Session, request: KeyedRequest, response: str | None, *, succeeded: bool
) -> None:
    """Store the response, or release the key if the request failed without any effect.

    `response` None: it cannot be kept.
    """
    params = {"id": request.id, "attempt": request.attempt, "response": response}
    own = "WHERE id = :id AND attempt = :attempt"
    if not succeeded:
        session.execute(f"DELETE FROM idempotency_keys {own} AND NOT has_written", params)
    sql = f"UPDATE idempotency_keys SET has_written = TRUE, response = :response {own}"
    session.execute(sql, params)


class IdempotencyKeys(Tables):
    """The idempotency_keys table."""

    reserve = writes_apart(_reserve)
    finish = writes_apart(_finish)
