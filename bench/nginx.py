"""nginx as the polled web: every host has a separate address, files from a folder."""

import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import feeds

_READY_SECONDS = 60.0
_COUNT_SECONDS = 5.0  # seconds until a response is in the log
_CONFIG = """
daemon off;
{user}
worker_processes 1;
worker_rlimit_nofile 65536;
pid {folder}/nginx.pid;
error_log {folder}/error.log crit;
events {{ worker_connections 32768; }}
http {{
    log_format status '$status';
    access_log {folder}/access.log status buffer=64k flush=20ms;
    types {{ application/rss+xml xml; text/html html; }}
    keepalive_timeout 1s;  # shorter than any pause between two polls of a source
    client_body_temp_path {folder}/temp;
    proxy_temp_path {folder}/temp;
    fastcgi_temp_path {folder}/temp;
    uwsgi_temp_path {folder}/temp;
    scgi_temp_path {folder}/temp;
    ssl_session_cache shared:tls:32m;
    ssl_protocols {protocols};
{servers}
}}
"""
_SERVER = """
    server {{
{listen}
        root {folder}/web;
        location /bytes/ {{ etag off; if_modified_since off; add_header Last-Modified ""; }}
    }}
"""


class Nginx:
    """A running nginx and the number of its responses by status."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "access.log"
        self._read = 0

    def responses(self, at_least: int) -> Counter[str]:
        """The responses since the last call, once there are as many as expected."""
        found: Counter[str] = Counter()
        deadline = time.monotonic() + _COUNT_SECONDS
        while True:
            time.sleep(0.05)  # longer than nginx buffers log lines
            with self._log.open() as log:
                log.seek(self._read)
                text = log.read()
            self._read += len(text)
            found.update(text.split())
            if found.total() >= at_least or time.monotonic() > deadline:
                return found


@contextmanager
def running(
    program: str, folder: Path, port: int, hosts: int, core: int, tls: str | None
) -> Iterator[Nginx]:
    """Serve `folder/web` on all hosts; `tls` is a version, with certificates in `folder/tls`."""
    (folder / "temp").mkdir()
    config = folder / "nginx.conf"
    config.write_text(
        _CONFIG.format(
            folder=folder,
            servers=_servers(folder, port, hosts, tls),
            user="user root;" if os.geteuid() == 0 else "",
            protocols=f"TLSv{tls or '1.3'}",
        )
    )
    with subprocess.Popen(
        [program, "-p", str(folder), "-c", str(config)],
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            _wait_until_ready(folder, process)
            yield Nginx(folder)
        finally:
            process.terminate()


def _servers(folder: Path, port: int, hosts: int, tls: str | None) -> str:
    addresses = [feeds.address(n) for n in range(hosts)]
    if tls is None:
        listen = "\n".join(f"        listen {a}:{port} backlog=256;" for a in addresses)
        return _SERVER.format(listen=listen, folder=folder)
    return "".join(_tls_server(address, port, folder) for address in addresses)


def _tls_server(address: str, port: int, folder: Path) -> str:
    listen = f"""        listen {address}:{port} ssl backlog=256;
        ssl_certificate {folder}/tls/{address}.pem;
        ssl_certificate_key {folder}/tls/key.pem;"""
    return _SERVER.format(listen=listen, folder=folder)


def _wait_until_ready(folder: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not (folder / "nginx.pid").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"nginx did not start; see {folder}/error.log")
        time.sleep(0.05)
