"""A copy that is killed at any time can be continued, and duplicates nothing."""

import contextlib
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from headwater.clock import SystemClock
from headwater.store import Store, open_database
from tests.operations.copy_cases import all_rows, fill_all, moved, unclaimed

pytestmark = [pytest.mark.postgres, pytest.mark.system]
POSTS = 12_000


@pytest.mark.parametrize(("from_", "to"), [("sqlite", "postgres"), ("postgres", "sqlite")])
async def test_k1_a_copy_killed_between_any_two_steps_can_be_continued(
    tmp_path: Path, postgres_url: Callable[[], str], from_: str, to: str
):
    urls = {"sqlite": f"sqlite:///{tmp_path / 'test.db'}", "postgres": postgres_url()}
    source, target = urls[from_], urls[to]
    await fill_all(source)
    before = await all_rows(source)
    await unclaimed(source)

    reported = subprocess.run(
        [sys.executable, "-m", "tests.operations.killed_copy", source, target],
        capture_output=True,
        text=True,
        check=True,
    )

    assert reported.stderr == ""
    assert int(reported.stdout) > 15  # it was killed at many different steps
    assert await all_rows(target) == before
    assert await all_rows(source) == before
    await unclaimed(source, target)
    again = await moved(source, target)
    assert (again.was_complete, again.differing) == (True, [])


async def test_k1_the_command_killed_several_times_ends_with_every_row_once(
    tmp_path: Path, postgres_url: Callable[[], str]
):
    source, target = f"sqlite:///{tmp_path / 'test.db'}", postgres_url()
    for url in (source, target):
        async with Store(open_database(url), SystemClock()) as store:
            await store.prepare()
    _add_posts(tmp_path / "test.db")
    command = [sys.executable, "-m", "headwater", "migrate", "--from", source, "--to", target]
    killed_at = []
    for wanted, last in ((1, 4_000), (4_000, 8_000), (8_000, 11_000)):
        with _held_up_at(target, last):
            process = subprocess.Popen(
                command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            async with Store(open_database(target), SystemClock()) as store:
                while await _copied(store) < wanted and process.poll() is None:
                    time.sleep(0.002)
                process.kill()
                _, complaint = process.communicate()
                assert process.returncode == -9, complaint
                killed_at.append(await _copied(store))
        await unclaimed(source, target)

    assert 0 < killed_at[0] < killed_at[1] < killed_at[2] < POSTS  # the progress never decreased
    done = subprocess.run(
        [*command, "--json"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    reported = json.loads(done.stdout)
    posts = next(table for table in reported["tables"] if table["table"] == "posts")
    assert reported["same"]
    assert posts["source"] == posts["target"]
    assert posts["target"]["rows"] == POSTS
    assert await all_rows(target) == await all_rows(source)


async def _copied(store: Store) -> int:
    return await store.posts.count()


@contextlib.contextmanager
def _held_up_at(target: str, number: int) -> Iterator[None]:
    """Block the insertion of this post by an open transaction with the same key."""
    with psycopg.connect(target) as connection:
        connection.execute("SET session_replication_role = replica")  # its source may come later
        connection.execute(
            """INSERT INTO posts (id, source_id, title, body, url, content_hash, created_at,
                podcast_id) VALUES (%s, 's', '', '', '', '', 0, 'default')""",
            (_id(number),),
        )
        yield
        connection.rollback()


def _id(number: int) -> str:
    return f"{number:05}-id"


def _add_posts(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(
            """INSERT INTO sources (id, podcast_id, type, url, host)
            VALUES ('s', 'default', 'rss', 'https://a.example/feed', 'a.example')"""
        )
        connection.execute(
            f"""WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {POSTS})
            INSERT INTO posts (id, source_id, title, body, url, content_hash, created_at,
                is_linked, podcast_id)
            SELECT printf('%05d-id', n), 's', 'post ' || n, hex(randomblob(500)),
                'https://a.example/' || n, 'hash ' || n, n, n % 2, 'default' FROM n"""
        )
        connection.commit()
