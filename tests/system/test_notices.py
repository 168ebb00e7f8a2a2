"""The service is killed while it tells about an incident: the message arrives all the same (Y3)."""

import asyncio
import signal
import time

import pytest

from tests.smtp_receiver import SmtpReceiver, receiving
from tests.system.conftest import Headwater, until

pytestmark = pytest.mark.system
HOUR_MS = 3_600_000


async def test_y3_k2_a_kill_between_incident_and_message_loses_none(headwater: Headwater):
    reached = asyncio.Event()

    async def silence(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        reached.set()
        await reader.read()

    async with receiving(SmtpReceiver(hostile=silence)) as mail:
        headwater.configure(
            app={
                "mail": {
                    "host": "127.0.0.1", "port": mail.port, "tls": "none",
                    "from": "headwater@example.org",
                },
            }
        )  # fmt: skip
        await headwater.cli("notices", "add", "email", "ann@example.org")
        await headwater.add("http://127.0.0.1:1/feed")
        now = time.time_ns() // 1_000_000
        headwater.change(
            "UPDATE sources SET failing_since = ?, consecutive_failures = 5, last_polled = ?",
            now - 48 * HOUR_MS, now,
        )  # fmt: skip

        await headwater.start()
        await asyncio.wait_for(reached.wait(), 60)  # the message is being sent
        await headwater.stop(signal.SIGKILL)
        assert mail.messages == []
        mail.hostile = None
        await headwater.start()
        await until(lambda: len(mail.messages) == 1)
        await until(lambda: headwater.rows("SELECT 1 FROM deliveries WHERE delivered_at > 0"))

        await headwater.stop(signal.SIGKILL)
        headwater.change("UPDATE sources SET failing_since = NULL, consecutive_failures = 0")
        await headwater.start()
        await until(lambda: len(mail.messages) == 2)
        await until(
            lambda: not headwater.rows("SELECT 1 FROM deliveries WHERE delivered_at IS NULL")
        )
        await headwater.stop()
    begun, over = (message["Subject"] for message in mail.messages)
    assert "resolved" not in begun
    assert over.startswith("Headwater: resolved: ")
    assert len({message["Message-ID"] for message in mail.messages}) == 2
    shown = await headwater.json("notices")
    assert shown["channels"][0]["last"]["delivered"] is True
