"""What workers cost their database, and workers that cannot use it (K8)."""

import asyncio
import re
from collections import Counter
from pathlib import Path

import psycopg
import pytest

from headwater.app import open_app
from headwater.settings import load_settings
from tests.cluster.failure_scenarios import HOSTS, a_cluster_run, urls_of
from tests.cluster.recording_web import a_web
from tests.cluster.worker_processes import WorkerProcesses, add_due, number, stored_polls, until
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(900)]
HEARTBEATS = 40
HEARTBEAT = "INTO workers"


async def test_k8_a_worker_uses_at_most_eight_sessions_and_is_quiet_when_idle(
    own_server: PostgresServer, tmp_path: Path
):
    url = own_server.new_database()
    own_server.run("ALTER SYSTEM SET log_statement = 'all'")
    own_server.run("ALTER SYSTEM SET log_line_prefix = '<%a %p> '")
    own_server.run("SELECT pg_reload_conf()")
    processes = WorkerProcesses(url, tmp_path, lease_seconds=30)
    settings = load_settings(options={"app.database-url": url}, environ={})
    async with open_app(settings) as app, a_web(HOSTS) as web:
        sources = await add_due(app, urls_of(web, HOSTS, 2))
        try:
            processes.start(APP__SOURCE__TICK_SECONDS="60")

            async def all_stored() -> bool:
                return await stored_polls(app) == len(sources)

            await until(all_stored, "not all were polled")
            log = own_server.log()
            start = len(log.read_text())

            def idle() -> str:
                return log.read_text()[start:]

            await until(lambda: idle().count(HEARTBEAT) > HEARTBEATS, "no heartbeats")
            logged = idle()  # read once: the worker goes on
            statements = re.findall(r"<headwater (?:worker|hosts) .*LOG: .*?: (.*)", logged)
            counted = Counter(one[:60] for one in statements)
            assert counted.total() <= 5 * logged.count(HEARTBEAT), counted
            sessions = """SELECT count(*) FROM pg_stat_activity
                WHERE application_name IN ('headwater worker', 'headwater hosts')"""
            assert 0 < await number(app, sessions) <= 8
        finally:
            processes.stop_all()


async def test_k8_a_worker_exits_if_its_leases_stay_unconfirmed(url: str, tmp_path: Path):
    async with a_cluster_run(url, tmp_path, each=1) as cluster:
        role = f"role_of_{url.split('?')[0].rpartition('/')[2]}"
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(f"CREATE ROLE {role} LOGIN")
            admin.execute(f"GRANT {admin.info.user} TO {role}")
            theirs = url.replace(f"//{admin.info.user}", f"//{role}")
            module = "tests.cluster.worker_with_little_patience"
            worker = cluster.processes.start(module, APP__DATABASE_URL=theirs)
            await cluster.all_stored()
            admin.execute(f"ALTER ROLE {role} NOLOGIN")
            cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'"
            admin.execute(cut)
            assert await asyncio.to_thread(worker.wait, 120) == 1
        assert "were not confirmed for 5 s" in cluster.processes.log(0).read_text()


async def test_the_number_of_shards_changes_only_without_workers(
    url: str, processes: WorkerProcesses
):
    async with a_cluster_run(url, processes.folder, each=1) as cluster:
        processes.start()
        await cluster.all_stored()
        refused = await asyncio.to_thread(processes.failing_command, "cluster", "shards", "1024")
        assert "stop them first" in refused
        processes.workers[0].terminate()
        assert await asyncio.to_thread(processes.workers[0].wait, 60) == 0
        run = processes.command_output
        changed = await asyncio.to_thread(run, "cluster", "shards", "1024")
        assert "256 shards are 1024 now" in changed
        processes.start()
        await cluster.add(HOSTS, 1)
        await cluster.all_stored()
        assert await number(cluster.app, "SELECT count(worker) FROM shards") == 1024
