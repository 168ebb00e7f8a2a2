"""Loads settings from a temporary folder, or returns the error line."""

import pytest

from headwater.errors import ConfigError
from headwater.settings import load_settings

CONTRACT = """
app:
  database-url: sqlite:///data/headwater.db
  server: {host: 127.0.0.1, port: 8420, allowed-hosts: [], trusted-proxies: []}
  shutdown-seconds: 10
  source:
    paused: false
    tick-seconds: 60
    max-article-age-days: 7
    max-failures: 5
    max-backoff-hours: 24
    late-entry-hours: 0
    adopt-moves: false
    probation: false
    processed-retention-days: null
    poll-history-days: 14
    daily-history-days: 400
    poll-delay-seconds: {rss: 0, website: 2, twitter: 0}
    host-overrides:
      nitter.net: {poll-delay-seconds: 3}
      "*.substack.com": {poll-delay-seconds: 1}
    aggregate-hosts: [nitter.net]
  fetch:
    user-agent-contact: https://example.org/bot
    connect-timeout-seconds: 10
    read-timeout-seconds: 30
    total-timeout-seconds: 60
    max-body-bytes: 10485760
    max-redirects: 5
    max-connections: 256
    allow-private-networks: false
    proxy: null
    parse-timeout-seconds: 10
    parse-memory-mb: 512
  x: {base-url: https://api.x.com}
  encryption: {master-key: 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f}
  log: {format: text, level: info}
"""
KEY = bytes(range(32))


def load(tmp_path, text=None, environ=None, options=None, **more):
    if text is not None:
        (tmp_path / "headwater.yaml").write_text(text, encoding="utf-8")
    return load_settings(cwd=tmp_path, environ=environ or {}, options=options, **more)


def problem(tmp_path, text=None, environ=None, options=None, **more):
    """The error line."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, environ, options, **more)
    line = str(caught.value)
    assert line.isprintable()
    assert len(line) < 500
    return line
