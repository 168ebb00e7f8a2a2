"""CPU per source of sources that share one URL, compared with sources of different URLs (Y7).

Run: python -m bench.shared_requests [PATH_OF_HEADWATER …]; by default the installed program.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from urllib.error import URLError
from urllib.request import Request, urlopen

SOURCES, ROUNDS, ENTRIES = 100, 3, 20
_WAIT_SECONDS = 60.0


class FeedServer(ThreadingHTTPServer):
    """Serves the same feed at every path, and counts requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests = 0


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.requests += 1  # type: ignore[attr-defined]
        body = _feed()
        self.send_response(200)
        self.send_header("Content-Type", "application/rss+xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write no log."""


def _feed() -> bytes:
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() - 3600))
    text = "A paragraph of some length, as a typical entry has it. " * 20
    items = "".join(
        f"<item><title>Entry {n}</title><link>https://a.invalid/{n}</link><guid>{n}</guid>"
        f"<pubDate>{date}</pubDate><description>{text}</description></item>"
        for n in range(ENTRIES)
    )
    return f"<rss version='2.0'><channel><title>T</title>{items}</channel></rss>".encode()


def main() -> None:
    """Print one line per program and case."""
    programs = sys.argv[1:] or [str(Path(sys.executable).with_name("headwater"))]
    server = FeedServer()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for program in programs:
        startup = median(_cpu_of_polls(program, server, [])[0] for _ in range(ROUNDS))
        for name, path in (("different URLs", "/{}"), ("one URL", "/feed")):
            urls = [
                f"http://127.0.0.1:{server.server_port}{path.format(n)}" for n in range(SOURCES)
            ]
            found = [_cpu_of_polls(program, server, urls) for _ in range(ROUNDS)]
            cpu = median(one[0] for one in found) - startup
            requests = {one[1] for one in found}
            print(
                f"{program}  {name}: {cpu / SOURCES * 1000:.2f} ms CPU per source, requests: "
                f"{sorted(requests)} for {SOURCES} sources, posts: {sorted({o[2] for o in found})}"
            )
    server.shutdown()


def _cpu_of_polls(program: str, server: FeedServer, urls: list[str]) -> tuple[float, int, int]:
    """Poll these sources once in a new database; return CPU seconds, requests and posts."""
    with tempfile.TemporaryDirectory() as folder:
        environ = os.environ | {
            "APP__FETCH__ALLOW_PRIVATE_NETWORKS": "true",
            "APP__SOURCE__PAUSED": "true",
            "APP__DATABASE_URL": f"sqlite:///{folder}/test.db",
        }
        with _serving(program, environ) as address:
            for url in urls:
                source = {"type": "rss", "url": url, "includeHistory": True}
                _call(f"{address}/api/users/default/podcasts/default/sources", source)
        before, asked = resource.getrusage(resource.RUSAGE_CHILDREN), server.requests
        subprocess.run(
            [program, "poll", "--all"], env=environ, check=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        posts = subprocess.run(
            ["sqlite3", f"{folder}/test.db", "SELECT count(*) FROM posts"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        return spent, server.requests - asked, int(posts.stdout)


@contextmanager
def _serving(program: str, environ: dict[str, str]) -> Iterator[str]:
    """Run the API, and return its address."""
    command = [program, "serve", "--port", "18423"]
    process = subprocess.Popen(
        command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address, until = "http://127.0.0.1:18423", time.monotonic() + _WAIT_SECONDS
    try:
        while True:
            try:
                urlopen(f"{address}/", timeout=5).close()
                break
            except URLError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()


def _call(url: str, body: dict[str, object]) -> None:
    headers = {"Content-Type": "application/json"}
    urlopen(Request(url, json.dumps(body).encode(), headers), timeout=30).close()


if __name__ == "__main__":
    main()
