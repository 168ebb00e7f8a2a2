"""Workers and databases that die, sleep or vanish: nothing lost, nothing stored twice (K8)."""

import asyncio
import signal
from collections import Counter

import pytest

from headwater.app import App, open_app
from headwater.settings import load_settings
from tests.cluster.crew import Crew, add_due, number, stored_polls, until
from tests.cluster.test_sharing import HOSTS, urls_of
from tests.cluster.web import Web, a_web
from tests.postgres import PostgresServer

pytestmark = pytest.mark.postgres
LOST = "[Cluster] a shard was taken over by another worker"


def asked_again(web: Web) -> Counter[str]:
    """How often URLs were asked for beyond the first time."""
    return web.times_asked() - Counter(dict.fromkeys(web.times_asked(), 1))


async def test_k8_a_killed_worker_s_shards_go_on_elsewhere(app: App, crew: Crew):
    async with a_web(HOSTS) as web:
        crew.delay_seconds = 0.2
        sources = await add_due(app, urls_of(web, HOSTS, 12))
        victim = crew.start()
        await until(lambda: web.requests() > 40, "nothing was polled")
        crew.start()
        victim.send_signal(signal.SIGKILL)
        victim.wait()

        async def all_stored() -> bool:
            return await stored_polls(app) >= len(sources)

        await until(all_stored, "the rest was not taken over")
        assert await stored_polls(app) == len(sources), "stored twice"
        # what had been asked for and was not stored yet
        assert asked_again(web).total() <= len(HOSTS)
        assert web.overlaps == []
        assert web.shortest_pause() >= 0.2


async def test_p3_a_delay_longer_than_the_lease_outlives_its_worker(app: App, crew: Crew):
    async with a_web(HOSTS[:6]) as web:
        crew.lease_seconds, crew.delay_seconds = 3, 10.0
        await add_due(app, urls_of(web, HOSTS[:6], 3))
        victim = crew.start()
        await until(lambda: web.requests() >= 6, "nothing was polled")
        crew.start()
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        await until(lambda: min(map(len, web.asked.values())) >= 2, "nobody took over")
        assert web.overlaps == []
        assert web.shortest_pause() >= 10.0


async def test_k8_a_worker_that_slept_past_its_lease_stores_nothing_any_more(app: App, crew: Crew):
    async with a_web(HOSTS) as web:
        crew.delay_seconds = 0.2
        sources = await add_due(app, urls_of(web, HOSTS, 20))
        sleeper = crew.start()
        await until(lambda: web.requests() > 40, "nothing was polled")
        crew.start()
        sleeper.send_signal(signal.SIGSTOP)

        async def buried() -> bool:
            return await number(app, "SELECT count(*) FROM workers") == 1

        await until(buried, "nobody noticed")

        async def goes_on() -> bool:
            sql = "SELECT count(*) FROM workers WHERE polls > 20"
            return await number(app, sql) == 1

        await until(goes_on, "nobody took over")
        sleeper.send_signal(signal.SIGCONT)
        await until(lambda: LOST in crew.log(0).read_text(), "the sleeper did not notice")

        async def all_stored() -> bool:
            return await stored_polls(app) >= len(sources)

        await until(all_stored, "not all were stored")
        assert await stored_polls(app) == len(sources), "stored twice"
        assert asked_again(web).total() <= len(HOSTS)
        assert web.overlaps == []


async def test_a_stalled_job_blocks_its_shard_no_longer_than_the_lease(app: App, crew: Crew):
    """A dead worker's job and the one that a tick put behind it: a retry would block both."""
    async with a_web(HOSTS) as web:
        sources = await add_due(app, urls_of(web, HOSTS, 1))
        first = crew.start()
        await until(lambda: web.requests() > 0, "nothing was polled")
        first.send_signal(signal.SIGKILL)
        first.wait()

        def stall(session: object) -> None:
            execute = session.execute  # type: ignore[attr-defined]
            execute("UPDATE sources SET last_polled = 0")
            execute(
                """INSERT INTO procrastinate_jobs (queue_name, task_name, lock, queueing_lock,
                    args, status)
                SELECT 'shards', 'headwater.shard', 'shard:' || n, 'shard:' || n,
                    jsonb_build_object('shard', n), status::procrastinate_job_status
                FROM generate_series(0, 255) n, unnest(ARRAY['doing', 'todo']) status
                ON CONFLICT DO NOTHING"""
            )

        await app.store.database.write(stall)
        asked_before = web.requests()
        crew.start()
        await until(lambda: web.requests() >= asked_before + len(sources), "shards are blocked")


@pytest.mark.parametrize("seconds", [5, 60])
async def test_k5_workers_outlive_their_database(own_server: PostgresServer, tmp_path, seconds):
    url = own_server.new_database()
    crew = Crew(url, tmp_path, delay_seconds=0.2, lease_seconds=10)
    settings = load_settings(options={"app.database-url": url}, environ={})
    async with a_web(HOSTS) as web:
        try:
            async with open_app(settings) as app:
                sources = await add_due(app, urls_of(web, HOSTS, 12))
            crew.start()
            crew.start()
            await until(lambda: web.requests() > 40, "nothing was polled")
            own_server.stop()
            await asyncio.sleep(seconds)  # the outage itself
            own_server.start()
            async with open_app(settings) as app:

                async def all_stored() -> bool:
                    return await stored_polls(app) >= len(sources)

                await until(all_stored, "workers did not come back")
                assert await stored_polls(app) == len(sources), "stored twice"
            assert [worker.poll() for worker in crew.workers] == [None, None]
            assert web.overlaps == []
            assert web.shortest_pause() >= 0.2
        finally:
            crew.dismiss()
