"""The search index: tokens of posts and articles, written after they are stored (B3).

An entry consists of the tokens of each field and of labels: the podcast, the source, the language
and the date, by which a search finds its entries without reading posts. SQLite has the entries in
an FTS5 table. PostgreSQL has their tokens as lexemes in a GIN index.
"""

import sys
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from headwater.model import EPOCH, Article, Post
from headwater.query.evaluator import Searchable
from headwater.store.database import Row, Session

Kind = Literal["posts", "articles"]
FOLLOWER = "search"
CURSOR = f"cursor:{FOLLOWER}"  # the key-value entry up to where the index is written
FIELDS = ("title", "author", "category", "text", "url")
_REMOVED_PER_BATCH = 250  # as expensive as adding them, and polls wait
# what PostgreSQL distinguishes the tokens of fields by; those of `url` are in no other field
LEXEME_PREFIXES = {"title": "t:", "author": "a:", "category": "c:", "url": "/"}
LABEL_PREFIX = ":"
_SHORTEST_PREFIX = 4  # letters; too many words have a shorter one
_MAX_LEXEME_BYTES = 900_000  # of an entry; PostgreSQL takes one megabyte
_COLUMNS = ("labels", *FIELDS)
# One lookup per word: reading on to the next word would read all entries that have this one.
_WORDS = """
    WITH RECURSIVE words (word) AS (
        SELECT (SELECT term FROM search_words WHERE term >= :prefix AND term < :end LIMIT 1)
        UNION ALL
        SELECT (SELECT term FROM search_words WHERE term >= word || char(1) AND term < :end LIMIT 1)
        FROM words WHERE word IS NOT NULL
    )
    SELECT word FROM words WHERE word IS NOT NULL LIMIT :limit
"""
_COMPRESSION = 1
_FUTURE = "future"
_IN_THE_FUTURE = timedelta(days=1)
_MAX_DAYS = 45
_MAX_MONTHS = 60
_MAX_TAG_PARTS = 9  # of a language tag in a query


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A post or article as it is indexed: labels and tokens, separated by spaces."""

    number: int  # its `seq`
    scope: str
    labels: str
    title: str
    author: str
    category: str
    text: str
    url: str


def entry_of(kind: Kind, podcast_id: str, stored: Post | Article, item: Searchable) -> IndexEntry:
    """The entry of a post or article, and what queries can ask about it."""
    scope = scope_label(kind, podcast_id)
    labels = [
        scope,
        source_label(item.source.id),
        *_language_labels(item.language),
        *_date_labels(item.at, stored.created_at),
    ]
    return IndexEntry(
        number=stored.seq or 0,
        scope=scope,
        labels=" ".join(labels),
        title=item.title_tokens,
        author=item.author_tokens,
        category=item.category_tokens,
        text=item.text_tokens,
        url=item.url_tokens,
    )


def scope_label(kind: Kind, podcast_id: str) -> str:
    """The label of all posts or all articles of a podcast."""
    return f"{kind}{podcast_id.encode().hex()}"


def source_label(source_id: str) -> str:
    """The label of the posts and articles of a source."""
    return f"source{source_id.encode().hex()}"


def language_label(tag: str) -> str:
    """The label of a language tag in lower case."""
    return f"lang{tag.encode().hex()}"


def _language_labels(language: str | None) -> Iterable[str]:
    """The labels of a language and of the more general ones: `pt-br` and `pt`."""
    tag = (language or "").replace("_", "-").lower()
    parts = tag.split("-")[:_MAX_TAG_PARTS] if tag else []
    return [language_label("-".join(parts[:count])) for count in range(1, len(parts) + 1)]


def _date_labels(at: datetime, created_at: datetime) -> Iterable[str]:
    if at > created_at + _IN_THE_FUTURE:
        return [_FUTURE]
    return [_day(at), _month(at)]


def labels_within(since: datetime | None, until: datetime | None, now: datetime) -> list[str]:
    """Labels of which everything between two times has one; empty if these are too many."""
    if since is None:
        return []
    end = min(until or now + _IN_THE_FUTURE, now + _IN_THE_FUTURE) + _IN_THE_FUTURE
    if end - since <= timedelta(days=_MAX_DAYS):
        days = range((since - EPOCH).days, (end - EPOCH).days + 1)
        return [_FUTURE, *(f"day{number}" for number in days)]
    months = range(_month_number(since), _month_number(end) + 1)
    return [_FUTURE, *(f"month{n}" for n in months)] if len(months) <= _MAX_MONTHS else []


def labels_after(until: datetime, now: datetime) -> list[str]:
    """Labels of months after a time: an item with one is later; at most the latest months."""
    if until >= now:
        return []
    last = _month_number(now + 2 * _IN_THE_FUTURE)
    first = max(_month_number(until + _IN_THE_FUTURE) + 1, last - _MAX_MONTHS)
    return [f"month{number}" for number in range(first, last + 1)]


def _day(at: datetime) -> str:
    return f"day{(at - EPOCH).days}"


def _month(at: datetime) -> str:
    return f"month{_month_number(at)}"


def _month_number(at: datetime) -> int:
    return at.year * 12 + at.month


def add_entries(session: Session, entries: Sequence[IndexEntry]) -> int:
    """Add entries, or replace those that are there; return how many were written."""
    if not entries:
        return 0
    entries = sorted(entries, key=lambda entry: entry.number)  # FTS5 writes them at once
    if session.kind == "postgres":
        return _add_lexemes(session, entries)
    delete_entries(session, [entry.number for entry in entries])
    columns = ", ".join(_COLUMNS)
    places = ", ".join(f":{name}" for name in _COLUMNS)
    rows = [{"number": e.number} | {name: getattr(e, name) for name in _COLUMNS} for e in entries]
    sql = f"INSERT INTO search_index (rowid, {columns}) VALUES (:number, {places})"
    session.execute_many(sql, rows)
    packed = [{"number": entry.number, "packed": _packed(entry)} for entry in entries]
    session.insert_rows("search_documents", packed)
    return len(entries)


def words_with_prefix(session: Session, prefix: str, limit: int) -> list[str]:
    """All words of SQLite's index with this prefix; none if it is short or they exceed the limit.

    The table of words shows what FTS5 has: each connection creates it in its temporary schema.
    """
    if len(prefix) < _SHORTEST_PREFIX:
        return []
    session.execute("""CREATE VIRTUAL TABLE IF NOT EXISTS temp.search_words
        USING fts5vocab(main, search_index, instance)""")
    params = {"prefix": prefix, "end": prefix + chr(sys.maxunicode), "limit": limit + 1}
    words = [row[0] for row in session.fetch(_WORDS, params)]
    return words if len(words) <= limit else []


def replace_entries(session: Session, entries: Sequence[IndexEntry]) -> int:
    """Replace the given entries that are there: others are yet to be added.

    Most changes of posts, such as of their story, do not change their entry. It is not written
    again then. Return how many were.
    """
    if not entries:
        return 0
    kept = "packed" if session.kind == "sqlite" else "NULL"  # PostgreSQL compares by itself
    sql = f"SELECT number, {kept} FROM search_documents WHERE number IN :numbers FOR UPDATE"
    there: dict[int, bytes | None] = dict(
        session.fetch(sql, {"numbers": [entry.number for entry in entries]})
    )
    changed = (entry for entry in entries if entry.number in there)
    if session.kind == "sqlite":
        changed = (entry for entry in changed if there[entry.number] != _packed(entry))
    return add_entries(session, list(changed))


def delete_entries(session: Session, numbers: Sequence[int]) -> None:
    """Delete entries."""
    if session.kind == "sqlite":
        sql = "SELECT number, packed FROM search_documents WHERE number IN :numbers ORDER BY number"
        rows = [_unpacked(row) for row in session.fetch(sql, {"numbers": numbers})]
        columns = ", ".join(_COLUMNS)
        places = ", ".join(f":{name}" for name in _COLUMNS)
        sql = f"""INSERT INTO search_index (search_index, rowid, {columns})
            VALUES ('delete', :number, {places})"""
        session.execute_many(sql, rows)
    session.execute("DELETE FROM search_documents WHERE number IN :numbers", {"numbers": numbers})


def clear_index(session: Session) -> None:
    """Delete all entries, and the cursors, so that everything is indexed again."""
    if session.kind == "sqlite":
        session.execute("INSERT INTO search_index (search_index) VALUES ('delete-all')")
    for table in ("search_documents", "search_removals"):
        session.execute(f"DELETE FROM {table} WHERE TRUE")
    session.execute("DELETE FROM facts WHERE name = :name", {"name": CURSOR})


def find_removed(session: Session, _now: datetime, limit: int) -> list[int]:
    """Numbers of deleted posts and articles whose entries are to be deleted.

    None beyond the cursor: what the follower is adding at this moment would stay.
    """
    sql = """SELECT number FROM search_removals WHERE number <=
        (SELECT CAST(value AS BIGINT) FROM facts WHERE name = :name) ORDER BY number LIMIT :limit"""
    params = {"name": CURSOR, "limit": min(limit, _REMOVED_PER_BATCH)}
    return [row[0] for row in session.fetch(sql, params)]


def delete_removed(session: Session, numbers: Sequence[int], _limit: int) -> int:
    """Delete the entries of deleted posts and articles; return how many these are."""
    delete_entries(session, numbers)
    sql = "DELETE FROM search_removals WHERE number IN :numbers"
    return session.execute(sql, {"numbers": numbers})


def _packed(entry: IndexEntry) -> bytes:
    text = "\n".join(getattr(entry, name) for name in _COLUMNS)
    return zlib.compress(text.encode(), _COMPRESSION)


def _unpacked(row: Row) -> dict[str, object]:
    number, packed = row
    texts = zlib.decompress(packed).decode().split("\n")
    return {"number": number} | dict(zip(_COLUMNS, texts, strict=True))


def _add_lexemes(session: Session, entries: Sequence[IndexEntry]) -> int:
    """Add entries to PostgreSQL; return how many were written."""
    sql = """INSERT INTO search_documents (number, scope, words, lexemes)
        SELECT number, scope, words, array_to_tsvector(string_to_array(lexemes, ' '))
        FROM unnest(CAST(:numbers AS BIGINT[]), CAST(:scopes AS TEXT[]), CAST(:words AS TEXT[]),
            CAST(:lexemes AS TEXT[])) AS given (number, scope, words, lexemes)
        ON CONFLICT (number) DO UPDATE SET words = excluded.words, lexemes = excluded.lexemes
            WHERE (search_documents.words, search_documents.lexemes)
                IS DISTINCT FROM (excluded.words, excluded.lexemes)"""
    params = {
        "numbers": [entry.number for entry in entries],
        "scopes": [entry.scope for entry in entries],
        "words": [_words(entry) for entry in entries],
        "lexemes": [" ".join(_lexemes(entry)) for entry in entries],
    }
    return session.execute(sql, params)


def _words(entry: IndexEntry) -> str:
    """The tokens of each field, surrounded by spaces, one field per line."""
    url = " ".join(f"{LEXEME_PREFIXES['url']}{token}" for token in entry.url.split())
    fields = (entry.title, entry.author, entry.category, entry.text, url)
    return "\n".join(f" {tokens} " for tokens in fields)


def _lexemes(entry: IndexEntry) -> list[str]:
    """The labels and tokens, as far as PostgreSQL can store them in one entry."""
    found = [f"{LABEL_PREFIX}{label}" for label in entry.labels.split()]
    for name, prefix in LEXEME_PREFIXES.items():
        found += [f"{prefix}{token}" for token in getattr(entry, name).split()]
    plain = f"{entry.title} {entry.author} {entry.category} {entry.text}".split()
    unique = list(dict.fromkeys(found + plain))
    if sum(map(len, unique)) < _MAX_LEXEME_BYTES // 4:  # of at most 4 bytes per character
        return unique
    total = 0
    for count, lexeme in enumerate(unique):
        total += len(lexeme.encode())
        if total > _MAX_LEXEME_BYTES:
            return unique[:count]
    return unique
