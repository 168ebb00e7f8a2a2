"""The same program on PostgreSQL: a real server, a real service."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.system.conftest import Headwater, feed_site, until, web_of

pytestmark = [pytest.mark.system, pytest.mark.postgres]


@pytest.fixture
def on_postgres(tmp_path: Path, postgres_url: Callable[[], str]) -> Iterator[Headwater]:
    folder = tmp_path / "on-postgres"
    folder.mkdir()
    program = Headwater(folder, database_url=postgres_url())
    yield program
    if program.process is not None:
        program.process.kill()
        program.process.wait()


async def test_k2_s10_a_service_on_postgresql_polls_survives_a_kill_and_is_alone(
    on_postgres: Headwater,
) -> None:
    async with web_of(one=feed_site(etag=True, entries=3), two=feed_site(entries=2)) as web:
        one = await on_postgres.add(web.url("one"))
        await on_postgres.add(web.url("two"))
        await on_postgres.start()
        polled = await on_postgres.json("poll", "--all")
        assert sorted(outcome["newPosts"] for outcome in polled) == [2, 3]
        assert "polls this database" in await on_postgres.cli("serve", code=2)
        await on_postgres.stop(signal.SIGKILL)
        await on_postgres.start()
        again = await on_postgres.json("poll", "--source", one)
        posts = await on_postgres.json("posts")
        assert await on_postgres.stop() == 0
    assert again[0]["status"] == 304
    assert len(posts) == 5
    assert "Traceback" not in on_postgres.log


async def test_a_backup_moves_a_sqlite_database_to_postgresql(
    headwater: Headwater, on_postgres: Headwater
) -> None:
    async with web_of(host=feed_site(entries=4)) as web:
        source = await headwater.add(web.url("host"))
        await headwater.cli("poll", "--source", source)
        await headwater.cli("backup", "moving.db")
        await on_postgres.cli("restore", str(headwater.folder / "moving.db"), "--yes")
        await on_postgres.start()
        await until(lambda: _lists(on_postgres, source))
        again = await on_postgres.json("poll", "--source", source)
        await on_postgres.stop()
    assert again[0]["outcome"] == "unchanged"


async def _lists(program: Headwater, source: str) -> bool:
    return any(listed["id"] == source for listed in await program.json("list"))
