"""Runs schemathesis against a real `headwater serve`, both isolated from the network.

Generated sources have generated addresses, and some of them exist. So all of this happens in a
network namespace with loopback only:
`unshare --net python -m tests.system.schemathesis_run FOLDER`.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import aiohttp

from tests.system.conftest import Headwater, feed_site, web_of
from tests.system.network_namespace import bring_loopback_up

SECONDS = 240  # far more than it takes
MORTALS = 12  # users, podcasts and sources that may be deleted
HERE = Path(__file__).parent


async def main(folder: Path) -> int:
    """Set up, run, check the database; return the exit code of schemathesis, or 1."""
    bring_loopback_up()
    async with web_of(news=feed_site(entries=5), blog=feed_site(entries=3, etag=True)) as web:
        program = Headwater(folder)
        token = (await program.cli("tokens", "add", "tests", "--admin")).strip()
        await program.start()
        try:
            async with ApiFiller(program.port, token) as filling:
                known = await filling.fill(web.url("news"), web.url("blog"))
            code = await run(program, token, known)
            assert program.process is not None
            assert program.process.poll() is None, "the server died"
            assert (await program.health())[0] == 200
            assert "Traceback" not in program.log, program.log[-5000:]
        finally:
            ended = await program.stop()
        assert ended == 0, program.log[-5000:]
        return code


class ApiFiller:
    """Creates objects of every kind over the API."""

    def __init__(self, port: int, token: str) -> None:
        self._base = f"http://127.0.0.1:{port}"
        self._headers = {"Authorization": f"Bearer {token}"}

    async def __aenter__(self) -> "ApiFiller":
        self._session = aiohttp.ClientSession(headers=self._headers)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def send(self, method: str, path: str, body: Any = None) -> Any:
        async with self._session.request(method, self._base + path, json=body) as answer:
            text = await answer.text()
            assert answer.status < 300, (method, path, answer.status, text)
            return json.loads(text) if text else None

    async def fill(self, news: str, blog: str) -> dict[str, list[str]]:
        """Create users, podcasts, sources, posts and articles; return their ids and names."""
        for name in ("ann", "bob"):
            await self.send("POST", "/api/users", {"name": name})
            await self.send("POST", f"/api/users/{name}/podcasts", {"name": "default"})
        own = "/api/users/default/podcasts/default"
        # different paths give different texts: the same story would be one article
        lasting = [await self._source(own, url) for url in (f"{news}/news", f"{blog}/blog")]
        lasting.append(await self._source("/api/users/ann/podcasts/default", f"{news}/ann"))
        for source in lasting[:2]:
            await self.send("POST", f"{own}/sources/{source}/poll")
        made = await self.send("POST", f"{own}/articles/aggregate")
        articles = [article["id"] for article in made["items"]]
        assert len(articles) == 8, made
        await self.send("POST", f"{own}/articles/{articles[0]}/processed")
        mortals: dict[str, list[str]] = {"user": [], "podcast": [], "source": []}
        for number in range(MORTALS):
            user = await self.send("POST", "/api/users", {"name": f"mortal {number}"})
            podcast = await self.send("POST", "/api/users/default/podcasts", {"name": f"m{number}"})
            mortals["user"].append(user["id"])
            mortals["podcast"].append(podcast["id"])
            mortals["source"].append(await self._source(own, f"{news}/{number}"))
        await self.send("POST", "/api/users/default/podcasts", {"name": "crowd"})
        for number in range(MORTALS):
            await self._source("/api/users/default/podcasts/crowd", f"{blog}/{number}")
        await self.send("PUT", "/api/users/default/api-keys/x", {"apiKey": "made-up"})
        hosts = [host["host"] for host in (await self.send("GET", "/api/hosts"))["items"]]
        posts = [post["id"] for post in (await self.send("GET", f"{own}/posts"))["items"]]
        known = {"sources": lasting, "articles": articles, "posts": posts, "hosts": hosts}
        return known | mortals

    async def _source(self, podcast: str, url: str) -> str:
        body = {"type": "rss", "url": url, "includeHistory": True}
        return str((await self.send("POST", f"{podcast}/sources", body))["id"])


def configuration(known: dict[str, list[str]]) -> str:
    """The configuration of schemathesis as TOML: known ids among generated ones, and exceptions."""
    words = {
        "users": ["default", "ann"],
        "podcasts": ["default"],
        "sources": known["sources"],
        "articles": known["articles"],
        "posts": known["posts"],
        "hosts": known["hosts"],
        "crowd": ["crowd"],
        "mortal-users": known["user"],
        "mortal-podcasts": known["podcast"],
        "mortal-sources": known["source"],
    }
    lists = "".join(f"[dictionaries.{n}]\nvalues = {json.dumps(v)}\n" for n, v in words.items())
    return (HERE / "schemathesis.toml").read_text() + lists


async def run(program: Headwater, token: str, known: dict[str, list[str]]) -> int:
    """Run schemathesis; its report goes to our standard output."""
    config = program.folder / "schemathesis.toml"
    config.write_text(configuration(known))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "schemathesis.cli", "--config-file", str(config),
        "run", f"http://127.0.0.1:{program.port}/api/openapi.json",
        "--no-color", *sys.argv[2:],
        cwd=program.folder,
        env=os.environ
        | {"HEADWATER_TOKEN": token, "HEADWATER_KNOWN": json.dumps(known)}
        | {"PYTHONPATH": str(HERE.parents[1])},
    )  # fmt: skip
    return await asyncio.wait_for(process.wait(), SECONDS)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]))))
