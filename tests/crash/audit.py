"""Compares the database of a killed service with the web's own history."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.model import SealedSecret
from headwater.rules.admission import hash_prefix
from headwater.store.migrate import newest_version
from headwater.vault import MasterKeys
from tests.crash.growing_feeds import GrowingFeed
from tests.crash.raw_database import RawDatabase, Row

_STORED_LINE = re.compile(r"\[Polling\] stored url=(\S+) new_posts=(\d+)")

_MUST_NOT_BE = (
    (
        "double",
        "entries stored twice",
        "SELECT url FROM posts GROUP BY source_id, url HAVING count(*) > 1",
    ),
    (
        "double",
        "posts in two articles",
        "SELECT post_id FROM post_articles GROUP BY post_id HAVING count(*) > 1",
    ),
    (
        "torn",
        "linked posts without an article",
        "SELECT id FROM posts WHERE is_linked AND id NOT IN (SELECT post_id FROM post_articles)",
    ),
    (
        "torn",
        "unlinked posts with an article",
        "SELECT id FROM posts WHERE NOT is_linked AND id IN (SELECT post_id FROM post_articles)",
    ),
    (
        "torn",
        "articles of no post",
        "SELECT id FROM articles WHERE id NOT IN (SELECT article_id FROM post_articles)",
    ),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation."""

    kind: str  # lost, double, torn, blamed, damaged, secret or stuck
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def audit(database: RawDatabase, feeds: Sequence[GrowingFeed], log: str) -> list[Finding]:
    """All violations in a database whose service was killed."""
    if not database.exist:
        return []
    found = [Finding("damaged", text) for text in database.damage()]
    found += _of_schema(database)
    if database.version == 0:
        return found
    sources = {
        row[0]: row[1:]
        for row in database.rows(
            "SELECT id, url, etag, last_modified, body_hash, last_seen_id, consecutive_failures,"
            " enabled FROM sources"
        )
    }
    stored, kept = _stored(database), _reported_by_history(database)
    reported = Counter[str]()
    for url, count in _STORED_LINE.findall(log):
        reported[url] += int(count)
    for feed in feeds:
        if feed.source_id not in sources:
            continue
        row = sources[feed.source_id]
        marks = stored.get(feed.source_id, Counter())
        found += _of_feed(feed, row, marks)
        if kept[feed.source_id] != marks.total():
            text = f"{feed.name}: {kept[feed.source_id]} in its history, {marks.total()} stored"
            found.append(Finding("torn", text))
        if reported[row[0]] > kept[feed.source_id]:
            found.append(Finding("lost", f"{feed.name}: the log reports more than was stored"))
    return found + list(_of_rows(database))


def missing(database: RawDatabase, feeds: Sequence[GrowingFeed]) -> list[Finding]:
    """Posts that every poll since must have stored."""
    stored = _stored(database)
    return [
        Finding("lost", f"{feed.name}: {len(gone)} entries never came")
        for feed in feeds
        if (gone := feed.now.hash_prefixes - stored.get(feed.source_id, Counter()).keys())
    ]


def failed_polls(database: RawDatabase) -> list[Finding]:
    """No source has failures: the web server never failed."""
    if database.version == 0:
        return []
    rows = database.rows("SELECT source_id, error FROM polls WHERE outcome = 'failed'")
    return [Finding("blamed", f"{source}: {error}") for source, error in rows]


def secrets_in(
    database: RawDatabase, key_file: Path, sent: Sequence[str], reported: int
) -> list[Finding]:
    """Violations among API keys: all of `sent` may be stored, the first `reported` must be."""
    rows = database.rows("SELECT key_id, nonce, ciphertext FROM api_keys")
    found = []
    if key_file.exists() and key_file.stat().st_mode & 0o077:
        found.append(Finding("secret", "the master key is open to others"))
    if not rows:
        return [*found, Finding("lost", "a key that was stored")] if reported else found
    try:
        vault = MasterKeys(key_file).vault()
        sealed = SealedSecret(rows[0][0], bytes(rows[0][1]), bytes(rows[0][2]))
        opened = vault.open(sealed, user_id="default", provider="x")
    except HeadwaterError as error:
        return [*found, Finding("secret", str(error))]
    if opened not in sent[max(reported - 1, 0) :]:
        found.append(Finding("lost", "the newest key that was stored"))
    return found


def _of_feed(feed: GrowingFeed, row: Row, marks: Counter[str]) -> Iterator[Finding]:
    _, etag, last_modified, body_hash, last_seen_id, failures, enabled = row
    believed = {
        "etag": (etag, feed.version_with(etag=etag)),
        "last modified": (last_modified, feed.version_with(last_modified=last_modified)),
        "body hash": (body_hash, feed.version_with(body_hash=body_hash)),
        "last seen": (last_seen_id, _version_seen(feed, last_seen_id)),
    }
    versions = {v for value, v in believed.values() if value is not None}
    if len(versions) > 1 or None in versions:
        yield Finding("torn", f"{feed.name}: {believed}")
    for number in sorted({v for v in versions if v is not None} | feed.claimed):
        lost = feed.versions[number].hash_prefixes - marks.keys()
        if lost:
            yield Finding("lost", f"{feed.name}: {len(lost)} entries of version {number}")
    if marks and max(marks.values()) > 1:
        yield Finding("double", f"{feed.name}: {marks.most_common(1)}")
    ever = {entry for version in feed.versions for entry in version.hash_prefixes}
    if marks.keys() - ever:
        yield Finding("torn", f"{feed.name}: posts that no entry was")
    if failures or not enabled:
        yield Finding("blamed", f"{feed.name}: {failures} failures")


def _version_seen(feed: GrowingFeed, last_seen_id: str | None) -> int | None:
    if last_seen_id is None:
        return None
    return feed.version_with(newest=datetime.fromisoformat(last_seen_id))


def _stored(database: RawDatabase) -> dict[str, Counter[str]]:
    """By source: every hash ever stored, and how many times."""
    found: dict[str, Counter[str]] = {}
    posts = database.rows("SELECT source_id, content_hash FROM posts")
    for source, digest in posts:
        found.setdefault(source, Counter())[hash_prefix(digest)] += 1
    for source, prefix in database.rows("SELECT source_id, mark FROM tombstones"):
        found.setdefault(source, Counter())[prefix] += 1
    return found


def _reported_by_history(database: RawDatabase) -> Counter[str]:
    rows = database.rows("SELECT source_id, sum(new_posts) FROM polls GROUP BY source_id")
    return Counter({source: int(total) for source, total in rows})


def _of_schema(database: RawDatabase) -> list[Finding]:
    """A migration is complete or not applied (K7)."""
    tables = database.tables()
    if "schema_version" not in tables:
        return [Finding("torn", f"tables without a version: {tables}")] if tables else []
    versions = [
        row[0] for row in database.rows("SELECT version FROM schema_version ORDER BY version")
    ]
    newest = newest_version(database.migrations)
    if versions not in ([1], list(range(1, newest + 1))):
        return [Finding("torn", f"schema {versions}")]
    if versions[-1] == newest and database.rows("SELECT 1 FROM posts WHERE podcast_id = ''"):
        return [Finding("torn", "posts that the migration left behind")]
    return []


def _of_rows(database: RawDatabase) -> Iterator[Finding]:
    """One post per entry; links and articles written and cleaned up together (D1, A3, C1)."""
    for kind, what, sql in _MUST_NOT_BE:
        rows = database.rows(sql)
        if rows:
            yield Finding(kind, f"{len(rows)} {what}")
