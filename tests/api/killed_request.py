"""Runs one request with an idempotency key, and kills its process before the response is stored.

    python -m tests.api.killed_request DATABASE_URL FOLDER

The request creates a user; the process ends when its response begins.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from headwater.api.factory import create_api
from headwater.app import open_app
from tests.api.conftest import settings_in

BODY = {"name": "killed"}
KEY = "killed-once"


async def run(url: str, folder: Path) -> None:
    settings = settings_in(folder, **{"app.database-url": url})
    async with open_app(settings) as app, app.service() as service:
        headers = {"host": "127.0.0.1", "content-type": "application/json", "idempotency-key": KEY}
        scope: dict[str, Any] = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1", "method": "POST", "scheme": "http", "path": "/api/users",
            "raw_path": b"/api/users", "query_string": b"", "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8420),
        }  # fmt: skip
        await create_api(app, service)(scope, _receive, _kill)


async def _receive() -> dict[str, Any]:
    return {"type": "http.request", "body": json.dumps(BODY).encode(), "more_body": False}


async def _kill(message: Any) -> None:
    assert message["status"] == 201, message
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], Path(sys.argv[2])))
