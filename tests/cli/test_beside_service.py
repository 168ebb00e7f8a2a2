"""Commands beside a process that has the database open (K5)."""

import asyncio

from headwater.clock import SystemClock
from headwater.store import Store, open_database
from headwater.store.sqlite_files import log_files
from tests.cli.command_runner import process


async def test_k5_no_command_replaces_a_file_of_an_open_database(tmp_path):
    path = tmp_path / "data" / "headwater.db"
    async with Store(open_database(f"sqlite:///{path}"), SystemClock()) as store:
        await store.prepare()
        files = log_files(path)
        assert len(files) == 2
        for command in ("migrate", "backup a.db", "restore a.db --yes", "vacuum", "users add anna"):
            done = await asyncio.to_thread(process, tmp_path, *command.split())
            assert (done.code, command) == (0, command), done.err
            await store.key_values.set("last command", command)
        assert await store.database.acquire_poll_lock()
        done = await asyncio.to_thread(process, tmp_path, "vacuum")
        assert "in small steps" in done.out
        await store.key_values.set("last command", "vacuum beside a poller")
        assert log_files(path) == files
    assert not log_files(path)  # the last connection deletes them
