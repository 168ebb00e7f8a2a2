"""The SQLite file itself."""

import stat

from headwater.clock import SystemClock
from headwater.store import Store, open_database
from headwater.store.backup import back_up


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


async def test_u6_the_database_and_its_copies_are_their_owners_alone(tmp_path):
    path, copy = tmp_path / "headwater.db", tmp_path / "copy.db"
    async with Store(open_database(f"sqlite:///{path}"), SystemClock()) as store:
        await store.prepare()
        assert mode(path) == mode(tmp_path / "headwater.db-wal") == 0o600
        await back_up(store.database, copy)
    assert mode(copy) == 0o600
