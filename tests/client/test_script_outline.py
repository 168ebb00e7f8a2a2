"""The example that makes a script outline, run as a program (V4)."""

import asyncio
import sys
from pathlib import Path

from tests.api.conftest import Served
from tests.api.stored_data import source_of
from tests.factories import a_post
from tests.store.store_data import with_posts

SCRIPT = Path(__file__).parents[2] / "examples" / "script_outline.py"


async def ran(served: Served, *options: str, token: str = "") -> tuple[int, str, str]:
    """The exit code of the script, and what it prints."""
    environment = {"HEADWATER_TOKEN": token} if token else {}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SCRIPT), "--url", served.url, "--batch", "episode 1", *options,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_v4_the_example_makes_an_outline_and_undoes_it(served: Served) -> None:
    now = served.app.clock.now()
    for label, name in (("The River", "rise"), ("The Bank", "rates")):
        source = await source_of(served, label=label)
        post = a_post(name, source_id=source.id, body=f"All of {name}. " * 50, created_at=now)
        await with_posts(served.app.store, source, post)

    code, outline, message = await ran(served)
    assert (code, message) == (0, "2 articles are processed as 'episode 1'.\n")
    assert outline.startswith("# episode 1\n\n## The Bank\n\n### The rates title\n\nAll of rates.")
    assert "## The River\n" in outline
    assert max(map(len, outline.splitlines())) < 310

    assert await ran(served) == (0, "", "There are no unprocessed articles.\n")
    assert await ran(served, "--undo") == (0, "", "2 articles are unprocessed again.\n")
    assert await ran(served) == (0, outline, message)


async def test_v4_e2_the_outline_has_the_headlines_of_a_digest(served: Served) -> None:
    source = await source_of(served, label="The River", aggregate=True)
    now = served.app.clock.now()
    posts = [
        a_post(name, source_id=source.id, url=f"https://example.org/{name}", created_at=now)
        for name in ("rise", "fall")
    ]
    await with_posts(served.app.store, source, *posts)
    code, outline, _ = await ran(served)
    assert code == 0
    assert "- [The rise title](https://example.org/rise)" in outline.splitlines()
    assert "- [The fall title](https://example.org/fall)" in outline.splitlines()
    assert "---" not in outline


async def test_v4_the_example_reports_problems(served: Served) -> None:
    token = await served.admin()
    code, out, message = await ran(served)
    assert (code, out) == (1, "")
    assert message.startswith("401 ")
    code, _, message = await ran(served, "--podcast", "nowhere", token=token)
    assert code == 1
    assert message.startswith("404 ")
    code, _, message = await ran(served, "--undo", token=token)
    assert code == 1
    assert "episode 1" in message
