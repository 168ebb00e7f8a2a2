"""The SQLite file itself."""

import io
import shutil
import stat

import pytest

from headwater import logs
from headwater.clock import SystemClock
from headwater.errors import DatabaseReplaced
from headwater.store import Store, open_database
from headwater.store.backup_file import back_up
from tests.store.store_data import StoreClock, a_polled_source, a_success, stored


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


async def test_u6_the_database_and_its_copies_are_readable_by_the_owner_only(tmp_path):
    path, copy = tmp_path / "headwater.db", tmp_path / "copy.db"
    async with Store(open_database(f"sqlite:///{path}"), SystemClock()) as store:
        await store.prepare()
        assert mode(path) == mode(tmp_path / "headwater.db-wal") == 0o600
        await back_up(store.database, copy)
    assert mode(copy) == 0o600


@pytest.mark.parametrize("successor", [False, True], ids=["deleted", "replaced"])
async def test_k5_writes_are_refused_if_the_file_was_deleted_or_replaced(
    tmp_path, clock: StoreClock, lines: io.StringIO, successor: bool
):
    logs.configure(stream=lines)
    path, aside = tmp_path / "headwater.db", tmp_path / "aside.db"
    async with Store(open_database(f"sqlite:///{path}"), clock) as store:
        await store.prepare()
        source = await stored(store)
        path.rename(aside)
        if successor:
            shutil.copyfile(aside, tmp_path / "new.db")
            (tmp_path / "new.db").rename(path)
        for write in (store.sources.add_many([a_polled_source()]), store.record(a_success(source))):
            with pytest.raises(DatabaseReplaced, match=r"deleted or replaced .* put the file back"):
                await write
        with pytest.raises(DatabaseReplaced):
            await store.schema()
        assert path.exists() is successor  # no connection creates it
        aside.rename(path)
        assert (await store.record(a_success(source))).recorded
    assert lines.getvalue().count("error [Store] the database file") == 1
