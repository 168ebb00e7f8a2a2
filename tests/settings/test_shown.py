"""How settings are displayed and exported, and the page that documents them."""

import re
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from headwater.model import SourceType
from headwater.rules.policy import HoldScope, HostOverride, Policy
from headwater.settings import Settings, effective, policy_from
from headwater.settings.configuration_keys import KEYS, dotted, variable
from tests.settings.loaded_settings import CONTRACT, KEY, load, problem

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_u6_secrets_are_masked_wherever_settings_are_shown(tmp_path):
    environ = {
        "APP__DATABASE_URL": "postgresql://me:hunter2@db.example/app?sslpassword=hunter2",
        "APP__FETCH__PROXY": "http://me:hunter2@proxy.example:3128",
        "APP__ENCRYPTION__MASTER_KEY": KEY.hex(),
    }
    settings = load(tmp_path, environ=environ)
    rows = {row.key: row.value for row in effective(settings)}
    assert rows["app.database-url"] == "postgresql://db.example/app?sslpassword=***"
    assert rows["app.fetch.proxy"] == "http://proxy.example:3128"
    assert rows["app.encryption.master-key"] == "***"
    for text in (str(rows), repr(settings), str(settings)):
        assert "hunter2" not in text
        assert KEY.hex() not in text
        assert repr(KEY) not in text


def test_u6_a_misplaced_secret_is_not_repeated(tmp_path):
    assert "hunter2" not in problem(tmp_path, "app: {encryption: hunter2}")
    assert "hunter2" not in problem(tmp_path, "app: {fetch: ['http://me:hunter2@p.example']}")


def test_g1_effective_lists_every_key_once_in_order(tmp_path):
    rows = effective(load(tmp_path, CONTRACT))
    keys = [row.key for row in rows]
    assert len(set(keys)) == len(keys)
    assert keys[0] == "app.database-url"
    assert "app.source.host-overrides.*.substack.com.poll-delay-seconds" in keys
    assert all(row.origin in ("headwater.yaml", "default") for row in rows)
    assert [row.key for row in effective(Settings())] == list(load(tmp_path, "app:").origins)


def test_g1_displayed_settings_can_be_loaded_again(tmp_path):
    environ = {"APP__FETCH__ALLOW_PRIVATE_NETWORKS": '["10.0.0.0/8"]'}
    settings = load(tmp_path, CONTRACT.replace("encryption:", "# encryption:"), environ)
    options = {row.key: row.value for row in effective(settings)}
    overrides = {}
    for key in [key for key in options if key.startswith("app.source.host-overrides.")]:
        host, _, name = key.removeprefix("app.source.host-overrides.").rpartition(".")
        overrides[host] = {name: options.pop(key)}  # an option cannot have the dots of a host
    again = load(tmp_path, "app:", options={**options, "app.source.host-overrides": overrides})
    assert again.model_dump() == settings.model_dump()


def test_g1_settings_are_frozen():
    with pytest.raises(ValidationError):
        Settings().source.max_failures = 3


def test_g1_the_policy_is_made_of_the_settings(tmp_path):
    assert policy_from(load(tmp_path)) == Policy()
    text = """
app:
  source:
    max-article-age-days: 1
    max-failures: 2
    max-backoff-hours: 3
    late-entry-hours: 4
    processed-retention-days: 5
    poll-history-days: 6
    daily-history-days: 8
    poll-delay-seconds: {website: 0}
    host-overrides: {"*.example.org": {poll-delay-seconds: 0, hold-scope: source}}
    aggregate-hosts: [b.example]
"""
    assert policy_from(load(tmp_path, text)) == Policy(
        max_article_age_days=1,
        max_failures=2,
        max_backoff_hours=3,
        late_entry_hours=4,
        processed_retention_days=5,
        poll_history_days=6,
        daily_history_days=8,
        type_delay_seconds={SourceType.WEBSITE: 0},
        host_overrides={"*.example.org": HostOverride(0, HoldScope.SOURCE)},
        aggregate_hosts=("b.example",),
    )


def documented():
    """Key → (default, variable) as the page's tables have them."""
    row = re.compile(
        r"^\| `(app\.[^`]+)` \| (?:`([^`]*)`|–) \| `(APP__[A-Z_]+)` \| \S", re.MULTILINE
    )
    found = row.findall(PAGE.read_text(encoding="utf-8"))
    assert len({key for key, _, _ in found}) == len(found)
    return {key: (default, name) for key, default, name in found}


def test_g1_the_page_and_the_settings_have_the_same_keys():
    assert set(documented()) == {dotted(path) for path in KEYS}


def test_g1_the_page_names_the_right_variables():
    for path in KEYS:
        whole = next((path[:i] for i, part in enumerate(path) if "<" in part), path)
        assert documented()[dotted(path)][1] == variable(whole)


def test_g1_the_page_has_the_right_defaults():
    rows = {row.key: row.value for row in effective(Settings())}
    for key, (default, _) in documented().items():
        if "<" in key:
            assert default == ""
            assert rows[key.partition(".<")[0]] == {}
        else:
            assert yaml.safe_load(default) == rows[key], key


def test_g1_the_examples_of_the_page_work(tmp_path):
    page = PAGE.read_text(encoding="utf-8")
    example = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    variables = re.search(r"```sh\n(.*?)```", page, re.DOTALL)
    assert example
    assert variables
    pairs = (line.split("=", 1) for line in variables[1].splitlines())
    settings = load(tmp_path, example[1], {name: text.strip("'") for name, text in pairs})
    assert settings.source.poll_delay_seconds == {"rss": 3, "website": 2}
    message = re.search(r"```\n(app\..*?)\n```", page)
    assert message
    assert problem(tmp_path, "app: {source: {max-failures: 0}}") == message[1]
