"""Events as lines of a server-sent stream, written when they are sent and not before."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from headwater.api.event_log import EventLog, Kept, KeptPoll, KeptPost
from headwater.api.schemas import all_reasons
from headwater.engine.events import EventKind
from headwater.rules.admission import timestamp
from headwater.rules.urls import masked

RETRY_MS = 2000
# escaped to ASCII: no text from a feed can break a line or the encoding
_json = json.JSONEncoder(separators=(",", ":")).encode


def opening(log: EventLog, place: int) -> bytes:
    """What a stream begins with: when to come back, and from which id on."""
    return f": headwater\nretry: {RETRY_MS}\nid: {log.id_of(place)}\n\n".encode()


def heartbeat(log: EventLog, place: int) -> bytes:
    """A sign of life; the id spares a quiet stream a reset when it comes back."""
    return f": still here\nid: {log.id_of(place)}\n\n".encode()


def reset(log: EventLog, place: int, reason: str, at: datetime) -> bytes:
    """Tells a client that it missed something, so that what it knows must be loaded anew."""
    return _text(log.id_of(place), "reset", {"at": timestamp(at), "reason": reason})


def texts_of(kept: Kept, log: EventLog, *, after: int, whole: bool) -> Iterator[tuple[int, bytes]]:
    """The number and the text of each event behind another one; URLs are whole to their owner."""
    if not isinstance(kept.told, tuple) or isinstance(kept.told, KeptPoll):
        yield kept.last, _text(log.id_of(kept.last), kept.kind, _data(kept, whole=whole))
        return
    about = _about(kept, whole=whole)
    first = kept.last - len(kept.told) + 1
    for number, post in enumerate(kept.told, first):
        if number > after:
            data = about | _post(post, whole=whole)
            yield number, _text(log.id_of(number), kept.kind, data)


def _text(event_id: str, kind: str, data: dict[str, Any]) -> bytes:
    return f"id: {event_id}\nevent: {kind}\ndata: {_json(data)}\n\n".encode("ascii")


def _data(kept: Kept, *, whole: bool) -> dict[str, Any]:
    told = kept.told
    match kept.kind:
        case EventKind.TICK:
            return {"at": timestamp(kept.at), "sources": int(str(told))}
        case EventKind.OUTAGE:
            return {"at": timestamp(kept.at), "kind": told}
        case EventKind.SOURCE_DISABLED:
            return _about(kept, whole=whole) | {"disabledReason": told}
    about = _about(kept, whole=whole)
    return about | _poll(told) if isinstance(told, KeptPoll) else about


def _about(kept: Kept, *, whole: bool) -> dict[str, Any]:
    return {
        "at": timestamp(kept.at),
        "sourceId": kept.source_id,
        "podcastId": kept.podcast_id,
        "userId": kept.user_id,
        "url": _shown(kept.url or "", whole=whole),
        "host": kept.host,
    }


def _poll(poll: KeptPoll) -> dict[str, Any]:
    """A poll's outcome as the contract has it."""
    failure = poll.failure
    return {
        "outcome": poll.kind,
        "newPosts": poll.new_posts,
        "skipped": all_reasons(poll.skipped),
        "status": poll.status,
        "failureType": None if failure is None else failure.type,
        "failureKind": None if failure is None else failure.kind,
        "error": None if failure is None else failure.message,
        "durationMs": poll.duration_ms,
    }


def _post(post: KeptPost, *, whole: bool) -> dict[str, Any]:
    """A post as it is served, but for its body."""
    published_at = post.published_at
    return {
        "id": post.id,
        "sourceId": post.source_id,
        "title": post.title,
        "url": _shown(post.url, whole=whole),
        "publishedAt": None if published_at is None else timestamp(published_at),
        "author": post.author,
        "contentHash": post.content_hash,
        "createdAt": timestamp(post.created_at),
    }


def _shown(url: str, *, whole: bool) -> str:
    return url if whole else masked(url)
