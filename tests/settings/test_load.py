"""The layers of the settings and their precedence."""

from pathlib import Path

import pytest

from headwater.errors import ConfigError
from headwater.model import SourceType
from headwater.rules.policy import HoldScope, HostOverride
from headwater.settings import Settings, effective, policy_from
from headwater.settings.configuration_keys import KEYS, variable
from tests.settings.loaded_settings import CONTRACT, KEY, load, problem


def test_g1_every_key_of_the_contract_works_as_written_there(tmp_path):
    settings = load(tmp_path, CONTRACT)
    assert settings.source.poll_delay_seconds == {"rss": 0, "website": 2, "twitter": 0}
    assert settings.source.host_overrides["*.substack.com"].poll_delay_seconds == 1
    assert settings.encryption.master_key.get_secret_value() == KEY
    assert settings.origins["app.fetch.max-redirects"] == "headwater.yaml"
    unset = {key for key, origin in settings.origins.items() if origin == "default"}
    assert {
        key
        for key in unset
        if not key.startswith(("app.limits.", "app.cluster.", "app.worker.", "app.incidents."))
        and not key.startswith(("app.mail.", "app.notify."))
    } == {
        "app.encryption.old-master-keys",  # of a rotation, else empty
        "app.server.access-log",
        "app.server.public-url",
    }


def test_g1_without_any_configuration_the_defaults_apply(tmp_path):
    settings = load(tmp_path)
    assert settings.model_dump() == Settings().model_dump()
    assert set(settings.origins.values()) == {"default"}
    assert settings.source.poll_delay_seconds == {}
    assert settings.source.host_overrides == {}
    assert settings.source.aggregate_hosts == ("nitter.net",)
    assert settings.database_file == Path("data/headwater.db")


def test_g1_later_layers_win_and_every_value_has_its_origin(tmp_path):
    text = "app: {source: {max-failures: 1, max-backoff-hours: 2, late-entry-hours: 3}}"
    environ = {"APP__SOURCE__MAX_BACKOFF_HOURS": "20", "APP__SOURCE__LATE_ENTRY_HOURS": "30"}
    settings = load(tmp_path, text, environ, {"app.source.late-entry-hours": 300})
    source = settings.source
    assert (source.max_failures, source.max_backoff_hours, source.late_entry_hours) == (1, 20, 300)
    assert settings.origins["app.source.max-failures"] == "headwater.yaml"
    assert settings.origins["app.source.max-backoff-hours"] == "APP__SOURCE__MAX_BACKOFF_HOURS"
    assert settings.origins["app.source.late-entry-hours"] == "option"
    assert settings.origins["app.source.paused"] == "default"


def test_g1_the_file_can_be_named(tmp_path):
    (tmp_path / "one.yaml").write_text("app: {source: {max-failures: 1}}")
    (tmp_path / "two.yaml").write_text("app: {source: {max-failures: 2}}")
    environ = {"HEADWATER_CONFIG": "one.yaml"}
    usual = "app: {source: {max-failures: 3}}"
    assert load(tmp_path, usual).source.max_failures == 3
    assert load(tmp_path, usual, environ).source.max_failures == 1
    settings = load(tmp_path, usual, environ, config_file=Path("two.yaml"))
    assert settings.source.max_failures == 2
    assert settings.origins["app.source.max-failures"] == "two.yaml"
    assert load(tmp_path, usual, {"HEADWATER_CONFIG": ""}).source.max_failures == 3


def test_g1_a_named_file_must_exist(tmp_path):
    line = problem(tmp_path, environ={"HEADWATER_CONFIG": "none.yaml"})
    assert line == "none.yaml: no such file"
    assert "cannot be read" in problem(tmp_path, config_file=tmp_path)


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "app:\n", "app: {source: , x: {}}\n", "\ufeffapp:"]
)
def test_g1_an_empty_file_or_section_sets_nothing(tmp_path, text):
    assert set(load(tmp_path, text).origins.values()) == {"default"}


def test_g1_maps_are_merged_key_by_key_over_all_layers(tmp_path):
    text = """
app:
  source:
    poll-delay-seconds: {rss: 1, website: 1, twitter: 1}
    host-overrides: {Nitter.NET.: {poll-delay-seconds: 1, hold-scope: source}, b.example: {}}
"""
    environ = {
        "APP__SOURCE__POLL_DELAY_SECONDS": '{"rss": 2, "website": 2}',
        "APP__SOURCE__POLL_DELAY_SECONDS__RSS": "3",
        "APP__SOURCE__HOST_OVERRIDES": '{"nitter.net": {"poll-delay-seconds": 0.5}}',
        "APP__SOURCE__HOST_OVERRIDES__c.example__HOLD_SCOPE": "source",
    }
    options = {
        "app.source.poll-delay-seconds.twitter": 4,
        "app.source.host-overrides": {
            "d.example": {"poll-delay-seconds": 5},
            "E.example": {"poll-delay-seconds": 6},
        },
        "app.source.aggregate-hosts": None,
    }
    settings = load(tmp_path, text, environ, options)
    assert settings.source.poll_delay_seconds == {"rss": 3, "website": 2, "twitter": 4}
    policy = policy_from(settings)
    assert policy.host_overrides == {
        "nitter.net": HostOverride(0.5, HoldScope.SOURCE),
        "c.example": HostOverride(None, HoldScope.SOURCE),
        "d.example": HostOverride(5),
        "e.example": HostOverride(6),
    }
    origins = settings.origins
    assert origins["app.source.poll-delay-seconds.website"] == "APP__SOURCE__POLL_DELAY_SECONDS"
    assert origins["app.source.host-overrides.nitter.net.hold-scope"] == "headwater.yaml"


def test_g1_null_resets_a_value_of_a_map(tmp_path):
    text = "app: {source: {poll-delay-seconds: {rss: 1, website: 0}}}"
    settings = load(tmp_path, text, {"APP__SOURCE__POLL_DELAY_SECONDS__RSS": "null"})
    assert policy_from(settings).type_delay_seconds == {SourceType.WEBSITE: 0}


@pytest.mark.parametrize(
    ("name", "text", "key", "value"),
    [
        ("APP__SOURCE__PAUSED", "true", "app.source.paused", True),
        ("APP__SOURCE__PAUSED", "Off", "app.source.paused", False),
        ("APP__SOURCE__PAUSED", "1", "app.source.paused", True),
        ("APP__SOURCE__TICK_SECONDS", "1.5", "app.source.tick-seconds", 1.5),
        ("APP__SOURCE__TICK_SECONDS", "1000000", "app.source.tick-seconds", 1_000_000),
        ("APP__FETCH__PROXY", "", "app.fetch.proxy", None),
        ("APP__FETCH__PROXY", "null", "app.fetch.proxy", None),
        ("APP__SOURCE__PROCESSED_RETENTION_DAYS", "30", "app.source.processed-retention-days", 30),
        (
            "APP__SOURCE__AGGREGATE_HOSTS",
            '["B.example"]',
            "app.source.aggregate-hosts",
            ["b.example"],
        ),
        ("APP__SOURCE__AGGREGATE_HOSTS", "[]", "app.source.aggregate-hosts", []),
        ("APP__FETCH__ALLOW_PRIVATE_NETWORKS", "true", "app.fetch.allow-private-networks", True),
        (
            "APP__FETCH__ALLOW_PRIVATE_NETWORKS",
            '["10.0.0.0/8", "fd00::/8", "127.0.0.1"]',
            "app.fetch.allow-private-networks",
            ["10.0.0.0/8", "fd00::/8", "127.0.0.1/32"],
        ),
        ("APP__DATABASE_URL", "sqlite:////var/h.db", "app.database-url", "sqlite:////var/h.db"),
        ("APP__X__BASE_URL", "http://127.0.0.1:9/", "app.x.base-url", "http://127.0.0.1:9"),
        ("APP__LOG__LEVEL", "WARNING", "app.log.level", "warning"),
        (
            "APP__SERVER__TRUSTED_PROXIES",
            '["127.0.0.1", "fd00::/8"]',
            "app.server.trusted-proxies",
            ["127.0.0.1/32", "fd00::/8"],
        ),
        ("APP__SERVER__PORT", "0", "app.server.port", 0),
        ("APP__SERVER__HOST", "[::1]", "app.server.host", "::1"),
        ("APP__LIMITS__MAX_PAGE_SIZE", "100", "app.limits.max-page-size", 100),
    ],
)
def test_g1_a_variable_sets_a_key(tmp_path, name, text, key, value):
    rows = {row.key: row for row in effective(load(tmp_path, environ={name: text, "OTHER": "x"}))}
    assert rows[key] == (key, value, name)


def test_g1_every_key_has_a_variable_that_works(tmp_path):
    for path in KEYS:
        if "<host>" in path:
            continue
        name = variable(tuple("rss" if part == "<type>" else part for part in path))
        try:
            load(tmp_path, environ={name: "\x01"})
        except ConfigError as error:
            assert name in str(error)
            assert "unknown" not in str(error)
        else:
            pytest.fail(f"{name} accepts anything")
