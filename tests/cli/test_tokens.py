"""`tokens`, `keys rotate`, and what `serve` requires on a reachable address."""

import base64
import http.client
import json
import re
import signal
import subprocess
from datetime import datetime, timedelta

import pytest

from headwater.rules.addresses import is_loopback
from tests.cli.command_runner import HEADWATER, environment, on_terminal, process
from tests.cli.conftest import CONFIG
from tests.cli.test_serve import Serving

SECRET = re.compile(r"hw_[\w-]{43}\n")


def test_u1_standard_output_has_the_secret_only(cli):
    said = cli("tokens", "add", "laptop", "--admin")
    assert said.code == 0
    assert SECRET.fullmatch(said.out)
    assert said.out.strip() not in said.err
    assert "laptop for an administrator" in said.err
    assert f"where {cli.folder / 'data' / 'headwater.db'} is served" in said.err
    shown = cli("tokens").out + cli("tokens", "list", "--json").out + cli("doctor").out
    assert said.out.strip() not in shown


def test_tokens_are_listed_with_their_owners(cli):
    cli("users", "add", "anna")
    cli("tokens", "add", "laptop", "--admin")
    cli("tokens", "add", "reader")
    cli("tokens", "add", "phone", "--user", "anna")
    assert [row[1:3] for row in cli("tokens").rows] == [
        ["laptop", "admin"],
        ["reader", "default"],
        ["phone", "anna"],
    ]
    listed = cli.json("tokens", "--json")
    fields = "id name scope user userId createdAt expiresAt lastUsedAt"
    assert [set(token) for token in listed] == [set(fields.split())] * 3
    assert [token["scope"] for token in listed] == ["admin", "user", "user"]
    users = {user["name"]: user["id"] for user in cli.json("users", "--json")}
    assert [token["userId"] for token in listed] == [None, "default", users["anna"]]


def test_u1_tokens_have_a_scope_and_an_expiry(cli):
    cli("tokens", "add", "reports", "--scope", "read")
    cli("tokens", "add", "reader", "--scope", "read", "--user", "default", "--expires", "30d")
    said = cli("tokens", "add", "prometheus", "--scope", "metrics", "--expires", "2099-01-31")
    assert "for readers of the metrics until 2099-01-31 00:00:00 UTC" in said.err
    assert [row[1:3] + row[4:] for row in cli("tokens").rows] == [
        ["reports", "all users", "read", "never", "never"],
        ["reader", "default", "read", cli("tokens").rows[1][5], "never"],
        ["prometheus", "all users", "metrics", "2099-01-31 00:00:00 UTC", "never"],
    ]
    listed = cli.json("tokens", "--json")
    assert [one["userId"] for one in listed] == [None, "default", None]
    created, expires = (datetime.fromisoformat(listed[1][n]) for n in ("createdAt", "expiresAt"))
    assert timedelta(days=29) < expires - created <= timedelta(days=30)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--scope", "metrics", "--user", "default"), "contradict"),
        (("--scope", "read", "--admin"), "contradict"),
        (("--scope", "everything"), "everything"),
        (("--expires", "soon"), "is no time"),
        (("--expires", "2020-01-01"), "in the future"),
        (("--expires", "0d"), "in the future"),
    ],
)
def test_a_token_with_contradicting_options_is_refused(cli, options, reason):
    said = cli("tokens", "add", "x", *options)
    assert said.code == 2
    assert reason in said.err
    assert cli("tokens").rows == []


def test_a_token_needs_a_name_and_one_owner(cli):
    assert "no user 'nobody'" in cli.fails("tokens", "add", "x", "--user", "nobody", code=2)
    assert "contradict" in cli.fails("tokens", "add", "x", "--admin", "--user", "anna", code=2)
    cli.fails("tokens", "add", "", code=2)
    cli.fails("tokens", "add", code=2)
    assert cli("tokens").rows == []


def test_a_token_is_revoked_by_name_or_id_without_confirmation(cli):
    cli("tokens", "add", "laptop", "--admin")
    cli("tokens", "add", "reader")
    assert "Revoked" in cli("tokens", "revoke", "laptop").out
    (left,) = cli.json("tokens", "--json")
    said = cli("tokens", "revoke", left["id"][:8])
    assert said.out == f"Revoked {left['id']} reader\n"
    assert "last one" in said.err
    assert "no token 'reader'" in cli.fails("tokens", "revoke", "reader", code=2)


def test_u5_keys_rotate_reports_what_it_did(cli):
    cli("keys", "set", "x", given="secret-key")
    file = cli.folder / "data" / "headwater.db.key"
    before = file.read_text()
    said = cli("keys", "rotate")
    assert (said.code, said.err) == (0, "")
    assert "Encrypted 1 API key with the new master key" in said.out
    assert "Removed 1 older master key" in said.out
    assert file.read_text() != before
    assert before.strip() not in said.out


def test_u5_keys_rotate_uses_the_configured_key(cli, monkeypatch):
    cli("keys", "set", "x", given="secret-key")
    monkeypatch.setenv("APP__ENCRYPTION__MASTER_KEY", "ab" * 32)
    assert "Encrypted 1 API key with the master key" in cli("keys", "rotate").out
    assert not (cli.folder / "data" / "headwater.db.key").exists()


def test_u5_keys_rotate_fails_when_a_key_cannot_be_read(cli):
    cli("keys", "set", "x", given="secret-key")
    (cli.folder / "data" / "headwater.db.key").unlink()
    said = cli("keys", "rotate")
    assert said.code == 1
    first, last = said.err.splitlines()
    assert "the 'x' key of user 'default' was sealed with master key" in first
    assert last.startswith("headwater: 1 API key could not be encrypted again")


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.0.2.7", "feeds.example", "::ffff:127.0.0.1"]
)
def test_serve_on_a_reachable_address_refuses_to_start_without_a_token(cli, host):
    assert not is_loopback(host)
    line = cli.fails("serve", "--host", host, code=2)
    assert "`headwater tokens add NAME --admin` makes one" in line
    assert f"app.server.host: {host}" in line


@pytest.mark.parametrize("host", ["127.0.0.1", "127.44.7.9", "localhost", "::1", "LOCALHOST."])
def test_loopback_needs_no_token(host):
    assert is_loopback(host)


@pytest.fixture
def serving(tmp_path):
    started = []

    def serve(*args):
        started.append(Serving(tmp_path, *args))
        return started[-1]

    yield serve
    for one in started:
        if one.process.poll() is None:
            one.end(signal.SIGKILL)


def secret_of(folder, *args):
    return process(folder, "tokens", "add", *args).out.strip()


@pytest.mark.system
def test_u1_a_running_service_requires_tokens_as_soon_as_one_exists(serving, tmp_path):
    server = serving()
    assert server.get("/api/users")[0] == 200
    admin = secret_of(tmp_path, "laptop", "--admin")
    status, headers, body = server.get("/api/users")
    assert (status, body["status"], headers["www-authenticate"]) == (401, 401, "Bearer")
    assert server.get("/api/health")[0] == 200
    assert server.get("/api/users", Authorization=f"Bearer {admin}")[0] == 200
    basic = base64.b64encode(f"anybody:{admin}".encode()).decode()
    feed = "/api/users/default/podcasts/default/feed.json"
    assert server.get(feed, Authorization=f"Basic {basic}")[0] == 200
    assert server.get("/api/users", Authorization=f"Basic {basic}")[0] == 401

    reader = secret_of(tmp_path, "reader")
    assert server.get("/api/users/default", Authorization=f"Bearer {reader}")[0] == 200
    assert process(tmp_path, "tokens", "revoke", "reader").code == 0
    assert server.get("/api/users/default", Authorization=f"Bearer {reader}")[0] == 401
    assert process(tmp_path, "tokens", "revoke", "laptop").code == 0
    assert server.get("/api/users")[0] == 200
    assert server.end() == 0
    assert not [line for line in server.lines if admin in line or reader in line]


@pytest.mark.system
def test_a_service_on_another_loopback_address_is_open_without_a_token(tmp_path):
    (tmp_path / "headwater.yaml").write_text(CONFIG)
    server = subprocess.Popen(
        [*HEADWATER, "serve", "--host", "127.84.20.1"],
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    port = None
    for line in server.stderr:
        if found := re.search(r"serving url=http://127\.84\.20\.1:(\d+)", line):
            port = int(found[1])
            break
    assert port is not None
    connection = http.client.HTTPConnection("127.84.20.1", port, timeout=60)
    connection.request("GET", "/api/users")
    assert json.loads(connection.getresponse().read())["items"][0]["id"] == "default"
    connection.close()
    server.send_signal(signal.SIGTERM)
    server.communicate(timeout=60)
    assert server.returncode == 0


@pytest.mark.system
def test_u5_a_running_service_uses_the_rotated_key(serving, tmp_path):
    server = serving()
    file = tmp_path / "data" / "headwater.db.key"

    def put(user, key):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        headers = {"Content-Type": "application/json"}
        body = json.dumps({"apiKey": key})
        connection.request("PUT", f"/api/users/{user}/api-keys/x", body, headers)
        status = connection.getresponse().status
        connection.close()
        return status

    assert put("default", "first") == 200
    before = file.read_text()
    assert process(tmp_path, "keys", "rotate").code == 0
    assert file.read_text() != before
    assert put("default", "second") == 200
    done = process(tmp_path, "keys", "rotate")
    assert (done.code, done.err) == (0, "")
    assert "Encrypted 1 API key" in done.out
    assert server.end() == 0


@pytest.mark.system
def test_on_a_terminal_the_secret_is_on_a_separate_line(tmp_path):
    said = on_terminal(tmp_path, "tokens", "add", "laptop")
    assert said.code == 0
    assert SECRET.search(said.out.replace("\r", ""))
    assert "laptop for default" in said.out
