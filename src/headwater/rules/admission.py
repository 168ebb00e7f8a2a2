"""Which entries become posts, and why the others do not (R2, R3, R5, R8, D1-D3)."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headwater.model import (
    EPOCH,
    Entry,
    LateKeys,
    Post,
    SkipReason,
    Source,
    SourceType,
    Subject,
    light,
)
from headwater.rules.policy import Policy

MARK_LENGTH = 32  # hex digits of a hash that are remembered for ever: 16 bytes (D1)
_MILLISECOND = timedelta(milliseconds=1)
_LINK_LENGTH = 16
_KEY_LENGTH = 16
_MAX_SEEN_KEYS = 5000  # of one date; beyond that "later than" is strict again (R2)


@light
class Candidate:
    """An entry that is new by its date, with what tells whether it was stored before."""

    entry: Entry
    content_hash: str
    late_key: str | None = None  # new only if this key was never seen (R8)
    twin_hash: str | None = None  # stored under another body at the same link (R5)


@dataclass(frozen=True, slots=True)
class Sifted:
    """The entries of an answer, parted by their dates."""

    candidates: tuple[Candidate, ...]
    already_seen: int
    late_keys: tuple[str, ...] = ()  # of all entries, while R8 is on

    @property
    def hashes(self) -> tuple[str, ...]:
        """All hashes whose fate must be known before anything is admitted."""
        twins = (c.twin_hash for c in self.candidates if c.twin_hash is not None)
        return (*(c.content_hash for c in self.candidates), *twins)


NO_ENTRIES = Sifted((), 0)


@dataclass(frozen=True, slots=True)
class Known:
    """What was ever stored, as far as an answer is concerned."""

    marks: frozenset[str] = frozenset()  # of hashes (D1, D5)
    marks_at_link: frozenset[tuple[str, str]] = frozenset()  # hash and link (R5)
    late_keys: frozenset[str] = frozenset()  # R8


NOTHING = Known()


@dataclass(frozen=True, slots=True)
class Admission:
    """The verdict on all entries of an answer."""

    posts: tuple[Post, ...]
    skipped: Mapping[SkipReason, int]
    verdicts: tuple[tuple[Entry, SkipReason | None], ...] = ()  # on the candidates, in their order


_NOTHING_TO_DECIDE = Admission((), {})


def sift(source: Source, entries: Sequence[Entry], now: datetime, policy: Policy) -> Sifted:
    """Part the entries that are new by their dates from those already seen (R2, R8)."""
    if not entries:
        return NO_ENTRIES
    since = _since(source, now)
    late = late_window(source, policy)
    candidates = []
    keys = tuple(entry_key(e) for e in entries) if late else ()
    for index, entry in enumerate(entries):
        if _is_later(entry, since, source, now):
            candidates.append(_candidate(entry))
        elif late and source.late_keys_kept and _is_late(entry, since, late):
            candidates.append(_candidate(entry, late_key=keys[index]))
    return Sifted(tuple(candidates), len(entries) - len(candidates), keys)


def admit(
    subject: Subject, sifted: Sifted, known: Known, now: datetime, policy: Policy
) -> Admission:
    """Decide on every candidate; an entry counts under the first reason that fits (D1-D3)."""
    if not sifted.candidates and not sifted.already_seen:
        return _NOTHING_TO_DECIDE
    source = subject.source
    oldest = now - article_age(subject.max_article_age_days, policy)
    born = None if source.first_poll_done or source.include_history else source.created_at
    skipped = Counter({SkipReason.ALREADY_SEEN: sifted.already_seen})
    posts: dict[str, Post] = {}
    verdicts = []
    for candidate in sifted.candidates:
        reason = _skip_reason(candidate, known, posts, oldest, born)
        verdicts.append((candidate.entry, reason))
        if reason is None:
            posts[candidate.content_hash] = _post(source, candidate, now)
        else:
            skipped[reason] += 1
    counts = {reason: n for reason, n in skipped.items() if n}
    return Admission(tuple(posts.values()), counts, tuple(verdicts))


def last_seen(
    source: Source, entries: Iterable[Entry], now: datetime
) -> tuple[str | None, tuple[str, ...]]:
    """The latest date up to now, and the keys of the entries that bear it (R2, R3)."""
    since = _since(source, now)
    newest, at_newest = since, list[Entry]()
    for entry in entries:
        date = entry_date(entry)
        # never later than now: one entry dated 2099 would silence the source (R3)
        if date is None or date > now or (newest is not None and date < newest):
            continue
        if date != newest:
            newest, at_newest = date, []
        at_newest.append(entry)
    if newest is None:
        return source.last_seen_id, source.seen_keys
    kept = source.seen_keys if newest == since else ()
    keys = tuple(dict.fromkeys((*kept, *(entry_key(e) for e in at_newest))))
    return timestamp(newest), keys if len(keys) <= _MAX_SEEN_KEYS else ()


def late_keys_after(source: Source, sifted: Sifted, policy: Policy) -> LateKeys | None:
    """What shall be remembered of this answer's keys (R8)."""
    if late_window(source, policy):
        return LateKeys(remember=tuple(dict.fromkeys(sifted.late_keys)))
    return LateKeys(forget_all=True) if source.late_keys_kept else None


def late_window(source: Source, policy: Policy) -> timedelta:
    """How long before `last_seen_id` an entry may be dated and still be new (R8)."""
    own = source.late_entry_hours
    return timedelta(hours=own if own is not None else policy.late_entry_hours)


def article_age(own_days: int | None, policy: Policy) -> timedelta:
    """How old posts and unprocessed articles may grow: the podcast's own limit first (D2)."""
    return timedelta(days=own_days if own_days is not None else policy.max_article_age_days)


def content_hash(body: str) -> str:
    """SHA-256 of the UTF-8 body, in hex (D1)."""
    return hashlib.sha256(body.encode("utf-8", "replace")).hexdigest()


def mark(digest: str) -> str:
    """The part of a hash that is remembered for ever (D1)."""
    return digest[:MARK_LENGTH]


def link_mark(url: str) -> str:
    """The short name under which a post's link is remembered (R5)."""
    return content_hash(url)[:_LINK_LENGTH]


def entry_key(entry: Entry) -> str:
    """What tells an entry from others of its feed: id, else link, else hash (R2)."""
    link = entry.url if entry.has_link else None
    return content_hash(entry.id or link or content_hash(entry.body))[:_KEY_LENGTH]


def entry_date(entry: Entry) -> datetime | None:
    """The entry's date in whole milliseconds, as it is stored."""
    date = entry.published_at
    if date is None or not date.microsecond % 1000:
        return date
    return date.replace(microsecond=date.microsecond // 1000 * 1000)


def timed_id(moment: datetime, *parts: str) -> str:
    """A UUID that sorts by its moment and follows from its parts, so that rules need no chance."""
    millis = max((moment - EPOCH) // _MILLISECOND, 0)
    digest = hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).digest()
    raw = bytearray(millis.to_bytes(6, "big") + digest[:10])
    raw[6] = raw[6] & 0x0F | 0x80
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def timestamp(moment: datetime) -> str:
    """A moment as it is served and kept in `last_seen_id`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seen_until(source: Source) -> datetime | None:
    """The date that `last_seen_id` stands for; X keeps an id there instead (X2)."""
    if source.last_seen_id is None or source.type is SourceType.TWITTER:
        return None
    try:
        moment = datetime.fromisoformat(source.last_seen_id)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _since(source: Source, now: datetime) -> datetime | None:
    """The date that entries must pass; one to come is left of a clock that was wrong (R3, O4)."""
    since = seen_until(source)
    return None if since is not None and since > now else since


def _is_later(entry: Entry, since: datetime | None, source: Source, now: datetime) -> bool:
    date = entry_date(entry)
    if date is None or since is None or date > now or date > since:
        return True
    at_the_date = date == since and len(source.seen_keys) > 0
    return at_the_date and entry_key(entry) not in source.seen_keys


def _is_late(entry: Entry, since: datetime | None, late: timedelta) -> bool:
    date = entry_date(entry)
    return date is not None and since is not None and since - date <= late


def _candidate(entry: Entry, late_key: str | None = None) -> Candidate:
    twin = None
    if entry.plain_body is not None:
        twin = content_hash(entry.plain_body)
    elif entry.published_at is None and entry.title:
        # stored with its title in front while the feed held another with the same body
        twin = content_hash(f"{entry.title} {entry.body}")
    return Candidate(entry, content_hash(entry.body), late_key, twin)


def _skip_reason(
    candidate: Candidate,
    known: Known,
    admitted: Mapping[str, Post],
    oldest: datetime,
    born: datetime | None,
) -> SkipReason | None:
    entry = candidate.entry
    if candidate.late_key is not None and candidate.late_key in known.late_keys:
        return SkipReason.ALREADY_SEEN
    if _is_duplicate(candidate, known, admitted):
        return SkipReason.DUPLICATE
    if entry.published_at is not None and entry.published_at < oldest:
        return SkipReason.TOO_OLD
    if born is not None and entry.published_at is not None and entry.published_at < born:
        return SkipReason.BEFORE_CREATION
    return SkipReason.EMPTY if not entry.body else None


def _is_duplicate(candidate: Candidate, known: Known, admitted: Mapping[str, Post]) -> bool:
    if candidate.content_hash in admitted or mark(candidate.content_hash) in known.marks:
        return True
    if candidate.twin_hash is None or candidate.entry.url is None:
        return False
    return (mark(candidate.twin_hash), link_mark(candidate.entry.url)) in known.marks_at_link


def _post(source: Source, candidate: Candidate, now: datetime) -> Post:
    entry = candidate.entry
    date = entry_date(entry)
    shown_at = now if date is None or date > now else date
    return Post(
        id=timed_id(shown_at, source.id, candidate.content_hash),
        source_id=source.id,
        title=entry.title,
        body=entry.body,
        url=entry.url or source.url,
        published_at=date,
        author=entry.author,
        content_hash=candidate.content_hash,
        created_at=now,
    )
