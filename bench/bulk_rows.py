"""Fills large SQLite databases quickly: a few rows by the program, then copied by SQL."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

_QUICK = ("journal_mode = OFF", "synchronous = OFF", "cache_size = -1000000", "foreign_keys = OFF")
_BODY = "The river rose by a few centimetres over night, and nobody knows why. " * 4


def copy_rows(path: Path, table: str, changes: Mapping[str, str], times: int) -> None:
    """Copy every row this many times; `changes` are SQL expressions of `copy`, from 1 on.

    The database must not be open elsewhere.
    """
    with sqlite3.connect(path) as connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    connection.close()
    values = ", ".join(changes.get(column, column) for column in columns)
    run_quickly(
        path,
        f"CREATE TEMP TABLE pattern AS SELECT * FROM {table}",
        f"""WITH RECURSIVE copies (copy) AS
            (SELECT 1 UNION ALL SELECT copy + 1 FROM copies WHERE copy < {times})
        INSERT INTO {table} ({", ".join(columns)}) SELECT {values} FROM copies, pattern""",
    )


def run_quickly(path: Path, *statements: str) -> None:
    """One transaction without durability."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        for pragma in _QUICK:
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.execute("BEGIN")
        for statement in statements:
            connection.execute(statement)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
    finally:
        connection.close()


def copy_sources(path: Path, times: int) -> None:
    """Copy every source this many times, each to a new host."""
    changes = {
        "id": "id || '-' || copy",
        "url": "url || '-' || copy",
        "host": "copy || '.' || host",
    }
    copy_rows(path, "sources", changes, times)


def add_posts(path: Path, posts: int, sources: int, now_ms: int) -> None:
    """Add posts of the sources `polled-0`, `polled-1`, …, which are added later."""
    run_quickly(
        path,
        f"""WITH RECURSIVE numbers (n) AS
            (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {posts - 1})
        INSERT INTO posts (id, source_id, podcast_id, title, body, url, published_at,
            content_hash, created_at)
        SELECT printf('%012x-post', n), 'polled-' || (n * {sources} / {posts}), 'default',
            'Level ' || n, '{_BODY}', 'http://a.example/' || n, {now_ms} - 3 * 86400000,
            lower(hex(randomblob(32))), {now_ms} FROM numbers""",
    )
