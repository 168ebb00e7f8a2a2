"""A process killed at any time leaves complete polls only (K1, K2)."""

import subprocess
import sys

import pytest

from headwater.store import Store
from tests.store.store_data import NOW, a_polled_source, a_post_of, bodies, rows, stored, with_posts

pytestmark = pytest.mark.slow  # kills a process at every step of a poll


@pytest.mark.parametrize("way", ["small", "large"])
async def test_k1_a_process_killed_between_any_two_steps_leaves_all_of_a_poll_or_nothing(
    store: Store, url: str, way: str
):
    sources = [a_polled_source() for _ in range(24)]
    await store.sources.add_many(sources)

    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.store.killed_recording",
            url,
            way,
            *(source.id for source in sources),
        ],
        capture_output=True,
        text=True,
        check=True,
    )

    assert process.stderr == ""
    reported = process.stdout.split()
    assert 0 < len(reported) < len(sources) - 5  # it was killed at many different steps
    assert reported == [source.id for source in sources[-len(reported) :]]
    for source in sources:
        after = await store.sources.get(source.id)
        whole = source.id in reported
        assert await bodies(store, source) == (["one", "two"] if whole else [])
        assert len(await store.polls.newest(source.id, limit=5)) == whole
        keys = await rows(store, "SELECT key FROM late_keys WHERE source_id = :id", id=source.id)
        assert len(keys) == 2 * whole
        assert ((await store.hosts.get(source.host or "")).hold is not None) == whole
        assert (after.validators.etag is not None) == whole
        assert whole or after == source


async def test_k2_after_a_kill_the_file_is_intact_and_polling_continues(store: Store, url: str):
    sources = [await stored(store, last_polled=NOW) for _ in range(4)]
    command = [
        sys.executable,
        "-m",
        "tests.store.killed_recording",
        url,
        "small",
        *(s.id for s in sources),
    ]

    subprocess.run(command, capture_output=True, check=True)

    assert store.database.integrity_errors() == []
    assert store.database.take_poll_lock()
    for source in sources:
        await with_posts(store, source, a_post_of(source))
        assert await bodies(store, source) == ["Some news"]
