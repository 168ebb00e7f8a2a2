"""Which entries become posts, and why the others do not (R2, R3, R5, R8, R9, D1-D3)."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from headwater.model import (
    EPOCH,
    Entry,
    LateKeys,
    Post,
    SkipReason,
    Source,
    SourceType,
    Subject,
    TextFrom,
    light,
)
from headwater.rules.filters import filtered_by, has_filters
from headwater.rules.policy import Policy

HASH_PREFIX_LENGTH = 32  # hex digits of a hash that are kept permanently: 16 bytes (D1)
_MILLISECOND = timedelta(milliseconds=1)
_MAX_MILLIS = (1 << 48) - 1
_LINK_LENGTH = 16
_KEY_LENGTH = 16
_SUGGESTION_ID_LENGTH = 16
_TEXT_FROM = {
    SourceType.RSS: TextFrom.FEED,
    SourceType.WEBSITE: TextFrom.PAGE,
    SourceType.TWITTER: TextFrom.X,
}
_MAX_SEEN_KEYS = 5000  # of one date; beyond that "later than" is strict again (R2)


@light
class Candidate:
    """An entry that is new by its date, with the hashes that identify it in the store."""

    entry: Entry
    content_hash: str
    late_key: str | None = None  # of a late entry, which is new only if this is unknown (R8)

    @property
    def alternate_hash(self) -> str | None:
        """The hash of the body that it may be stored under at its link (R5).

        Computed when needed: a feed may have 100,000 undated entries (H1).
        """
        entry = self.entry
        if entry.plain_body is not None:
            return content_hash(entry.plain_body)
        if entry.published_at is None and entry.title:
            # it is stored as title + body if the feed then had another entry with the same body
            return content_hash(entry.title, " ", entry.body)
        return None


@dataclass(frozen=True, slots=True)
class NewByDate:
    """The entries of an answer that are new by their dates, and how many are not."""

    candidates: tuple[Candidate, ...]
    already_seen: int
    late_keys: tuple[str, ...] = ()  # of all entries, while R8 is on
    oldest_first: bool = False  # the order of the document (R9)

    @property
    def hashes(self) -> tuple[str, ...]:
        """All hashes to look up in the store before anything is admitted."""
        alternates = (candidate.alternate_hash for candidate in self.candidates)
        return (*(c.content_hash for c in self.candidates), *(h for h in alternates if h))


@dataclass(frozen=True, slots=True)
class Known:
    """Which hashes and keys of an answer were stored before."""

    hash_prefixes: frozenset[str] = frozenset()  # of hashes (D1, D5)
    prefixes_at_link: frozenset[tuple[str, str]] = frozenset()  # hash and link (R5)
    late_keys: frozenset[str] = frozenset()  # R8


@dataclass(frozen=True, slots=True)
class Admission:
    """Which entries of an answer become posts, and why the others do not."""

    posts: tuple[Post, ...]  # oldest first (R9)
    skipped: Mapping[SkipReason, int]
    reasons: tuple[SkipReason | None, ...] = ()  # why each candidate is skipped, in their order


def new_by_date(
    source: Source, entries: Sequence[Entry], now: datetime, policy: Policy
) -> NewByDate:
    """Select the entries that are new by their dates (R2, R8)."""
    since = _since(source, now)
    late = late_window(source, policy)
    candidates = []
    keys = tuple(entry_key(e) for e in entries) if late else ()
    for index, entry in enumerate(entries):
        if _is_later(entry, since, source, now):
            candidates.append(Candidate(entry, entry_hash(entry)))
        elif late and source.late_keys_kept and since is not None:
            date = entry_date(entry)
            if date is not None and since - date <= late:
                candidates.append(Candidate(entry, entry_hash(entry), keys[index]))
    oldest_first = len(candidates) > 1 and _lists_oldest_first(entries)
    return NewByDate(tuple(candidates), len(entries) - len(candidates), keys, oldest_first)


def admit(
    subject: Subject, dated: NewByDate, known: Known, now: datetime, policy: Policy
) -> Admission:
    """Decide on every candidate; an entry is skipped for the first reason that applies (D1-D3)."""
    if not dated.candidates and not dated.already_seen:
        return Admission((), {})  # most polls
    source = subject.source
    oldest = now - article_age(subject.max_article_age_days, policy)
    created_at = None if source.first_poll_done or source.include_history else source.created_at
    skipped = Counter({SkipReason.ALREADY_SEEN: dated.already_seen})
    posts: dict[str, Post] = {}
    reasons = []
    for candidate in dated.candidates:
        reason = _skip_reason(candidate, known, posts, oldest, created_at)
        reasons.append(reason)
        if reason is None:
            posts[candidate.content_hash] = _post(source, candidate, now)
        else:
            skipped[reason] += 1
    counts = {reason: n for reason, n in skipped.items() if n}
    in_order = posts.values() if dated.oldest_first else reversed(posts.values())
    by_date = sorted(in_order, key=lambda post: post.published_at or now)
    if by_date and has_filters(subject):
        by_date = [replace(post, filtered_by=filtered_by(subject, post)) for post in by_date]
    return Admission(tuple(by_date), counts, tuple(reasons))


def earliest_new_date(source: Source, now: datetime, policy: Policy) -> datetime | None:
    """The date before which no entry is new, so that it needs no Markdown (R2); None: any may be.

    With a window for late entries, which of them are new is not known before the store is asked.
    """
    return None if late_window(source, policy) else _since(source, now)


def last_seen(
    source: Source, entries: Iterable[Entry], now: datetime
) -> tuple[str | None, tuple[str, ...]]:
    """The latest date up to now, and the keys of the entries with that date (R2, R3)."""
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


def late_keys_after(source: Source, dated: NewByDate, policy: Policy) -> LateKeys | None:
    """Which entry keys to store after this answer (R8)."""
    if late_window(source, policy):
        return LateKeys(remember=tuple(dict.fromkeys(dated.late_keys)))
    return LateKeys(forget_all=True) if source.late_keys_kept else None


def late_window(source: Source, policy: Policy) -> timedelta:
    """How long before `last_seen_id` an entry may be dated and still be new (R8)."""
    own = source.late_entry_hours
    return timedelta(hours=own if own is not None else policy.late_entry_hours)


def article_age(own_days: int | None, policy: Policy) -> timedelta:
    """The age limit of posts and unprocessed articles: the podcast's own, else the default (D2)."""
    return timedelta(days=own_days if own_days is not None else policy.max_article_age_days)


def content_hash(*parts: str) -> str:
    """SHA-256 of the UTF-8 body, in hex (D1); in parts, to spare a copy of a long text (H1)."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode("utf-8", "replace"))
    return digest.hexdigest()


def suggestion_id(source_id: str, kind: str, what: str) -> str:
    """The id of a suggestion: the same whenever the same is proposed for a source."""
    return content_hash(f"{source_id} {kind} {what}")[:_SUGGESTION_ID_LENGTH]


def entry_hash(entry: Entry) -> str:
    """The content hash of an entry; that of a page leaves out ignored lines (W4)."""
    return entry.identity_hash or content_hash(entry.body)


def hash_prefix(digest: str) -> str:
    """The first 16 bytes of a hash, which are kept after its post is deleted (D1)."""
    return digest[:HASH_PREFIX_LENGTH]


def link_key(url: str) -> str:
    """The shortened hash of a post's link (R5)."""
    return content_hash(url)[:_LINK_LENGTH]


def entry_key(entry: Entry) -> str:
    """The key of an entry within its feed: a hash of its id, else its link, else its body (R2)."""
    link = entry.url if entry.has_link else None
    return content_hash(entry.id or link or content_hash(entry.body))[:_KEY_LENGTH]


def entry_date(entry: Entry) -> datetime | None:
    """The entry's date in whole milliseconds, as stored."""
    date = entry.published_at
    if date is None or not date.microsecond % 1000:
        return date
    return date.replace(microsecond=date.microsecond // 1000 * 1000)


def timed_id(moment: datetime, *parts: str) -> str:
    """A UUID (version 8) that sorts by time and is derived from its parts, without randomness."""
    millis = max((moment - EPOCH) // _MILLISECOND, 0)
    digest = hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).digest()
    raw = bytearray(millis.to_bytes(6, "big") + digest[:10])
    raw[6] = raw[6] & 0x0F | 0x80
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def first_id(moment: datetime) -> str:
    """The lower bound of the timed ids of a time: every id of an earlier time is lower."""
    millis = min(max((moment - EPOCH) // _MILLISECOND, 0), _MAX_MILLIS)
    text = millis.to_bytes(6, "big").hex()
    return f"{text[:8]}-{text[8:]}"


def id_with_seq(id_: str, seq: int) -> str:
    """A timed id with part of its hash replaced by a number: ids of equal times sort by it (R9)."""
    high, middle, low = seq >> 30 & 0xFFF, seq >> 16 & 0x3FFF, seq & 0xFFFF
    return f"{id_[:13]}-8{high:03x}-{0x8000 | middle:04x}-{low:04x}{id_[28:]}"


def numbered(post: Post, seq: int) -> Post:
    """The post with its number, which its id contains too (R9)."""
    return replace(post, id=id_with_seq(post.id, seq), seq=seq)


def timestamp(moment: datetime) -> str:
    """A timestamp as served and as stored in `last_seen_id`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seen_until(source: Source) -> datetime | None:
    """`last_seen_id` as a date; None for X, which stores a tweet id there (X2)."""
    if source.last_seen_id is None or source.type is SourceType.TWITTER:
        return None
    try:
        moment = datetime.fromisoformat(source.last_seen_id)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _since(source: Source, now: datetime) -> datetime | None:
    """The date after which entries are new; a future one is ignored: the clock was wrong (O4)."""
    since = seen_until(source)
    return None if since is not None and since > now else since


def _lists_oldest_first(entries: Sequence[Entry]) -> bool:
    """Whether the dates increase rather than decrease in the order of the document (R9)."""
    dates = [entry.published_at for entry in entries if entry.published_at is not None]
    rises = sum(one < following for one, following in pairwise(dates))
    falls = sum(one > following for one, following in pairwise(dates))
    return rises > falls


def _is_later(entry: Entry, since: datetime | None, source: Source, now: datetime) -> bool:
    date = entry_date(entry)
    if date is None or since is None or date > now or date > since:
        return True
    has_keys = date == since and len(source.seen_keys) > 0
    return has_keys and entry_key(entry) not in source.seen_keys


def _skip_reason(
    candidate: Candidate,
    known: Known,
    admitted: Mapping[str, Post],
    oldest: datetime,
    created_at: datetime | None,
) -> SkipReason | None:
    entry = candidate.entry
    if candidate.late_key is not None and candidate.late_key in known.late_keys:
        return SkipReason.ALREADY_SEEN
    if _is_duplicate(candidate, known, admitted):
        return SkipReason.DUPLICATE
    date = entry.published_at
    if date is not None and date < oldest:
        return SkipReason.TOO_OLD
    if created_at is not None and date is not None and date < created_at:
        return SkipReason.BEFORE_CREATION
    return SkipReason.EMPTY if not entry.body else None


def _is_duplicate(candidate: Candidate, known: Known, admitted: Mapping[str, Post]) -> bool:
    digest, url = candidate.content_hash, candidate.entry.url
    if digest in admitted or hash_prefix(digest) in known.hash_prefixes:
        return True
    if url is None or not known.prefixes_at_link:
        return False
    alternate = candidate.alternate_hash
    return (
        alternate is not None and (hash_prefix(alternate), link_key(url)) in known.prefixes_at_link
    )


def _post(source: Source, candidate: Candidate, now: datetime) -> Post:
    entry = candidate.entry
    date = entry_date(entry)
    sort_at = now if date is None or date > now else date
    return Post(
        id=timed_id(sort_at, source.id, candidate.content_hash),
        source_id=source.id,
        title=entry.title,
        body=entry.body,
        url=entry.url or source.url,
        published_at=date,
        author=entry.author,
        content_hash=candidate.content_hash,
        created_at=now,
        markdown=entry.markdown,
        enclosures=entry.enclosures,
        categories=entry.categories,
        language=entry.language,
        image_url=entry.image_url,
        completeness=entry.completeness,
        text_from=_TEXT_FROM[source.type],
        page_text=entry.page_text,
        conversation_id=entry.conversation_id,
    )
