"""`headwater mcp` and /mcp as real processes, used by the official client (V5)."""

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from headwater.demo.demo_web import Reply, Request
from headwater.mcp_server.external_text import tokens
from headwater.mcp_server.http_endpoint import HOW_TO_INSTALL
from tests.cli.command_runner import environment, python
from tests.mcp_server.conftest import READ_TOOLS, WRITE_TOOLS, Tools, connected
from tests.system.conftest import Headwater, rss, until, web_of

# a process in which the package is not installed
WITHOUT_MCP = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mcp", "mcp_types"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
sys.argv = ["headwater", *ARGUMENTS]
from headwater.__main__ import main
sys.exit(main())
"""


def news(_: Request) -> Reply:
    """A host whose every path is a feed of three stories."""
    stories = [(f"story-{n}", f"The river rose by {n} metres", None) for n in range(3)]
    return Reply(200, rss("news.test", *stories), "application/rss+xml")


@asynccontextmanager
async def over_stdio(folder: Path, *arguments: str, **variables: str) -> AsyncIterator[Tools]:
    """The official client with a `headwater mcp` that it starts and ends."""
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "headwater", "mcp", *arguments],
        cwd=folder,
        env=environment(**variables),
    )
    with (folder / "mcp.txt").open("w") as errors:
        async with stdio_client(command, errlog=errors) as streams, ClientSession(*streams) as one:
            await one.initialize()
            yield Tools(one)
    assert (folder / "mcp.txt").read_text() == ""


async def test_v5_a_client_works_with_the_database_directly(headwater: Headwater):
    """Everything that a podcast maker does, without a service that runs."""
    await headwater.cli("migrate")
    async with web_of(news=news) as web, over_stdio(headwater.folder, "--write") as tools:
        assert await tools.names() == READ_TOOLS + WRITE_TOOLS
        url = web.url("news")
        added = await tools.call("add_source", url=url, label="News")  # visited: its first poll
        assert (added["type"], added["postCount"]) == ("rss", 3)

        async def is_indexed() -> bool:
            return len((await tools.call("search_posts", query="river"))["items"]) == 3

        await until(is_indexed)
        post, *_ = (await tools.call("search_posts", query='"rose by 2"'))["items"]
        assert "rose by 2 metres" in (await tools.call("get_post", id=post["id"]))["text"]
        assert (await tools.call("source_health", source=added["id"]))["health"] == "ok"
        assert (await tools.call("explain_source", source=added["id"]))["steps"]
        assert (await tools.call("unprocessed_articles"))["pendingPosts"] == 3
        await headwater.cli("aggregate")
        text = await tools.text("unprocessed_articles", max_tokens=4000)
        assert tokens(text) <= 4000
        ids = [item["id"] for item in json.loads(text)["items"]]
        assert len(ids) == 3
        assert (await tools.call("annotate", id=ids[0], score=1))["score"] == 1
        await tools.call("mark_processed", ids=ids, batch="episode 1")
        assert (await tools.call("unprocessed_articles"))["items"] == []
    (batch,) = await headwater.json("batches")
    assert (batch["name"], batch["articles"]) == ("episode 1", 3)
    entries = await headwater.json("audit")
    assert {entry["who"] for entry in entries if entry["action"] == "source.add"} == {
        "command line"
    }


async def test_v5_without_the_option_only_read_tools_are_offered(headwater: Headwater):
    await headwater.cli("migrate")
    source = await headwater.add("http://127.66.9.9:1/feed")
    async with over_stdio(headwater.folder) as tools:
        assert await tools.names() == READ_TOOLS
        assert [one["id"] for one in (await tools.call("list_sources"))["items"]] == [source]
        refused = await tools.error("add_source", url="http://127.66.9.9:1/other", type="rss")
        assert "permits reading only" in refused


async def test_v5_a_client_works_with_a_running_service(headwater: Headwater):
    await headwater.cli("migrate")
    secrets = {}
    for scope in ("admin", "user", "read"):
        secrets[scope] = (await headwater.cli("tokens", "add", scope, "--scope", scope)).strip()
    await headwater.start()
    service = f"http://127.0.0.1:{headwater.port}"

    async with web_of(news=news) as web, connected(service, secrets["user"]) as tools:
        assert await tools.names() == READ_TOOLS + WRITE_TOOLS
        added = await tools.call("add_source", url=web.url("news"))
    async with connected(service, secrets["read"]) as tools:
        assert await tools.names() == READ_TOOLS
        assert len((await tools.call("search_posts"))["items"]) == 3

    arguments = ("--url", service)
    async with over_stdio(
        headwater.folder, *arguments, "--write", HEADWATER_TOKEN=secrets["user"]
    ) as tools:
        assert await tools.names() == READ_TOOLS + WRITE_TOOLS
        post, *_ = (await tools.call("search_posts"))["items"]
        assert (await tools.call("annotate", id=post["id"], kind="post", score=2))["score"] == 2
        assert "there is no post" in await tools.error("get_post", id="unknown")
    async with over_stdio(
        headwater.folder, *arguments, "--write", HEADWATER_TOKEN=secrets["read"]
    ) as tools:
        assert (await tools.call("source_health", source=added["id"]))["health"] == "ok"
        refused = await tools.error("annotate", id=post["id"], kind="post", score=3)
        assert "permits reading only" in refused
    async with over_stdio(headwater.folder, *arguments) as tools:
        assert await tools.names() == READ_TOOLS
        assert "token is required" in await tools.error("list_podcasts")


async def test_v5_a_service_that_is_killed_is_a_clear_error_until_it_is_back(headwater: Headwater):
    await headwater.cli("migrate")
    await headwater.start()
    service = f"http://127.0.0.1:{headwater.port}"
    async with over_stdio(headwater.folder, "--url", service) as tools:
        assert len((await tools.call("list_podcasts"))["items"]) == 1
        await headwater.stop(signal.SIGKILL)
        assert service in await tools.error("list_podcasts")
        assert service in await tools.error("search_posts", query="river")
        await headwater.start()
        assert len((await tools.call("list_podcasts"))["items"]) == 1


async def test_v5_the_command_runs_beside_a_service(headwater: Headwater):
    await headwater.cli("migrate")
    await headwater.start()
    async with over_stdio(headwater.folder, "--write") as tools:
        added = await tools.call("add_source", url="http://127.66.9.9:1/feed", type="rss")
        found = await headwater.json("show", added["id"])
        assert found["id"] == added["id"]


@pytest.mark.parametrize("options", [[], ["--url", "http://127.0.0.1:1"]])
def test_v5_without_the_package_one_line_says_how_to_install_it(
    headwater: Headwater, options: list[str]
):
    code = WITHOUT_MCP.replace("ARGUMENTS", repr(["mcp", *options]))
    done = python(headwater.folder, "-c", code)
    assert (done.code, done.out, done.err) == (2, "", f"headwater: {HOW_TO_INSTALL}\n")


async def test_v5_without_the_package_the_service_runs_and_says_it_at_the_path(
    headwater: Headwater,
):
    code = WITHOUT_MCP.replace("ARGUMENTS", repr(["serve"]))
    with (headwater.folder / "log.txt").open("ab") as log:
        headwater.process = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=headwater.folder, env=environment(), stdout=log, stderr=log,
        )  # fmt: skip

    async def is_up() -> bool:
        try:
            return (await headwater.health())[0] == 200
        except OSError:
            return False

    await until(is_up)
    done = python(headwater.folder, "-c", POST_TO_MCP, PORT=str(headwater.port))
    assert (done.out.split(" ", 1)[0], done.err) == ("404", "")
    assert HOW_TO_INSTALL in json.loads(done.out.split(" ", 1)[1])["detail"]


POST_TO_MCP = """
import http.client, os
connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["PORT"]))
connection.request("POST", "/mcp", b"{}", {"Content-Type": "application/json"})
response = connection.getresponse()
print(response.status, response.read().decode())
"""


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "there is no database"),
        (["--url", "ftp://example.org"], "is not the URL of a service"),
        (["--url", "http://me:secret@127.0.0.1:1"], "has no user name"),
    ],
)
def test_v5_wrong_usage_is_one_line(headwater: Headwater, options: list[str], reason: str):
    done = python(headwater.folder, "-m", "headwater", "mcp", *options)
    assert (done.code, done.out) == (2, "")
    assert reason in done.err
    assert done.err.count("\n") == 1
    assert "secret" not in done.err


def test_the_program_starts_without_loading_the_package(tmp_path: Path):
    code = "import sys, headwater.cli.mcp, headwater.cli.serve; print('mcp' in sys.modules)"
    assert python(tmp_path, "-c", code).out == "False\n"
