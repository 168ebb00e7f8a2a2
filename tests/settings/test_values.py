"""Values that need more than a type and a range."""

import base64
from ipaddress import ip_network

import pytest
import yaml

from tests.settings.loaded_settings import KEY, load, problem


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///relative.db",
        "sqlite:////var/lib/headwater.db",
        "sqlite:///data/with space.db",
        "postgresql://localhost/app",
        "postgresql:///app",
        "postgresql://me:p%40ss@a.example:5432,[::1]:5433/app?sslmode=require",
    ],
)
def test_g1_valid_database_urls_are_accepted(tmp_path, url):
    assert load(tmp_path, environ={"APP__DATABASE_URL": url}).database_url == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "data/headwater.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:////",
        "sqlite:///folder/",
        "sqlite:///:memory:",
        "sqlite:///a.db?mode=ro",
        "mysql://me:hunter2@localhost/app",
        "postgres://me:hunter2@localhost/app",
        "postgresql+psycopg://me:hunter2@localhost/app",
        "postgresql://me:hun/ter2@localhost/app",
        "postgresql://me:12/hunter2@localhost/app",
        "postgresql://me:12?hunter2@localhost/app",
        "postgresql://me:hunter2@localhost:port/app",
        "postgresql://me:hunter2@[::1/app",
        "postgresql://me:hun ter2@localhost/app",
    ],
)
def test_g1_any_other_database_url_is_refused_without_repeating_it(tmp_path, url):
    line = problem(tmp_path, environ={"APP__DATABASE_URL": url})
    assert line.startswith("app.database-url: must ")
    assert "hunter2" not in line
    assert "ter2" not in line


@pytest.mark.parametrize(
    "text",
    [
        KEY.hex(),
        KEY.hex().upper(),
        base64.b64encode(KEY).decode(),
        base64.urlsafe_b64encode(KEY).decode().rstrip("="),
        f" {KEY.hex()}\n",
    ],
)
def test_u5_the_master_key_is_read_from_hexadecimal_and_base64(tmp_path, text):
    settings = load(tmp_path, environ={"APP__ENCRYPTION__MASTER_KEY": text})
    assert settings.encryption.master_key is not None
    assert settings.encryption.master_key.get_secret_value() == KEY


@pytest.mark.parametrize(
    "text", ["abc", KEY.hex()[:-2], KEY.hex() + "00", "ä" * 43, "=" * 44, "a b"]
)
def test_u5_any_other_master_key_is_refused_without_repeating_it(tmp_path, text):
    line = problem(tmp_path, environ={"APP__ENCRYPTION__MASTER_KEY": text})
    assert line == (
        "app.encryption.master-key: must be 32 bytes, written as 64 hexadecimal digits or as base64"
        " (APP__ENCRYPTION__MASTER_KEY)"
    )


@pytest.mark.parametrize("value", [3, True, ["x"], "null"])
def test_u5_a_master_key_is_text(tmp_path, value):
    if value == "null":
        text = "app: {encryption: {master-key: null}}"
        assert load(tmp_path, text).encryption.master_key is None
    else:
        text = yaml.safe_dump({"app": {"encryption": {"master-key": value}}})
        assert problem(tmp_path, text).startswith("app.encryption.master-key: must be 32 bytes")


@pytest.mark.parametrize(
    ("key", "url", "fine"),
    [
        ("fetch.proxy", "http://me:pw@proxy.example:3128", True),
        ("fetch.proxy", "https://proxy.example/", False),
        ("fetch.proxy", "socks5://proxy.example", False),
        ("fetch.proxy", "http://me:12/hunter2@proxy.example", False),
        ("fetch.proxy", "proxy.example:3128", False),
        ("x.base-url", "http://127.0.0.1:8080/x", True),
        ("x.base-url", "ftp://api.x.com", False),
        ("x.base-url", "https://me:hunter2@api.x.com", False),
        ("fetch.user-agent-contact", "mailto:me@example.org", True),
        ("fetch.user-agent-contact", "https://example.org/bot", True),
        ("fetch.user-agent-contact", "example.org", False),
        ("fetch.user-agent-contact", "https://example.org/\r\nX: y", False),
        ("fetch.user-agent-contact", "https://example.org/(x)", False),
    ],
)
def test_g1_addresses_are_checked(tmp_path, key, url, fine):
    section, name = key.split(".")
    text = yaml.safe_dump({"app": {section: {name: url}}})
    if fine:
        assert load(tmp_path, text)
    else:
        line = problem(tmp_path, text)
        assert line.startswith(f"app.{key}: must be")
        assert "hunter2" not in line


def test_n3_private_networks_are_networks(tmp_path):
    text = "app: {fetch: {allow-private-networks: [192.168.1.0/24]}}"
    assert load(tmp_path, text).fetch.allow_private_networks == (ip_network("192.168.1.0/24"),)


@pytest.mark.parametrize(
    ("environ", "address"),
    [
        ({}, "http://127.0.0.1:8420"),
        ({"APP__SERVER__HOST": "::1"}, "http://[::1]:8420"),
        ({"APP__SERVER__HOST": "0.0.0.0"}, None),
        ({"APP__SERVER__PORT": "0"}, None),
        ({"APP__SERVER__ALLOWED_HOSTS": '["hw.example.org"]'}, None),
        ({"APP__SERVER__TRUSTED_PROXIES": '["127.0.0.1"]'}, None),
        (
            {"APP__SERVER__PUBLIC_URL": "https://hw.example.org/base/"},
            "https://hw.example.org/base",
        ),
    ],
)
def test_y3_the_address_of_the_dashboard_is_set_or_that_of_the_loopback(tmp_path, environ, address):
    server = load(tmp_path, environ=environ).server
    assert server.dashboard_url(serves=True) == address
    # a worker serves no dashboard
    assert server.dashboard_url(serves=False) == server.public_url
