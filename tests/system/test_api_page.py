"""Every command of docs/api.md works as the page says, against a real server."""

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.system.conftest import Headwater, feed_site, web_of

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
STATUS = re.compile(r" # (\d{3})$", re.MULTILINE)
# `curl` tells its status besides; a stream ends after ten seconds, and that is no failure
PRELUDE = r"""
set -euo pipefail
headwater() { "$PYTHON" -m headwater "$@" 2> /dev/null; }
curl() {
  local stream=
  for word in "$@"; do [ "$word" != -N ] || stream="--max-time 10"; done
  command curl $stream -w '%{stderr}\n[%{http_code}]\n' "$@" || [ -n "$stream" ]
}
"""
pytestmark = pytest.mark.system


@pytest.mark.skipif(
    not all(map(shutil.which, ("bash", "curl", "jq"))), reason="needs bash, curl and jq"
)
async def test_every_command_is_answered_as_the_page_says(headwater: Headwater) -> None:
    blocks = SHELL.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) > 15
    async with web_of(news=feed_site(entries=3)) as web:
        await headwater.start()
        site = web.url("news")
        script = script_of(blocks, headwater.port, site)
        found = await run(script, headwater.folder)
    told = found.split("<<block>>")[1:]
    assert len(told) == len(blocks), found[-2000:]
    for block, text in zip(blocks, told, strict=True):
        statuses = re.findall(r"^\[(\d{3})\]$", text, re.MULTILINE)
        expected = STATUS.findall(block)
        if "while " in block:  # how often it goes around is not for the page to say
            statuses, expected = sorted(set(statuses)), sorted(set(expected))
        assert statuses == expected, (block, text)
    assert "Body 0" in (headwater.folder / "script.txt").read_text()


@pytest.mark.skipif(
    not all(map(shutil.which, ("bash", "curl", "jq"))), reason="needs bash, curl and jq"
)
async def test_the_loop_that_hands_over_ends_with_an_error_when_a_call_fails(
    headwater: Headwater,
) -> None:
    blocks = SHELL.findall(PAGE.read_text(encoding="utf-8"))
    (loop,) = [block for block in blocks if "while " in block]
    (api,) = [line for line in blocks[0].splitlines() if line.startswith("api()")]
    await headwater.start()
    place = f"P=http://127.0.0.1:{headwater.port}/api/users/default/podcasts/default"
    script = f"{place}\nTOKEN=wrong\n{api}\n{loop}"
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", script, cwd=headwater.folder,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 1, err
    assert b"curl: (22)" in err


def script_of(blocks: list[str], port: int, site: str) -> str:
    """The page as one script; sites that exist are put in the place of those that do not."""
    host = site.removeprefix("http://").partition(":")[0]
    text = "".join(f"echo '<<block>>' >&2\n{block}" for block in blocks)
    text = text.replace("http://127.0.0.1:8420", f"http://127.0.0.1:{port}")
    text = text.replace("https://example.org", site)
    text = re.sub(r"(?<=hosts/)example\.org", host, text)
    leads = re.findall(r"https?://([^/:\"']+)", text)
    assert all(lead.startswith("127.") for lead in leads), leads
    return PRELUDE + text


async def run(script: str, folder: Path) -> str:
    """What it wrote to standard error, where the statuses go."""
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", script, cwd=folder, env=os.environ | {"PYTHON": sys.executable},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), 100)
    assert process.returncode == 0, (out[-2000:], err[-3000:])
    return err.decode()
