"""config, migrate, backup, restore, doctor."""

import json
import os

import pytest

from tests.cli.command_runner import process


def test_config_shows_values_with_their_origin_and_no_secrets(cli, monkeypatch):
    monkeypatch.setenv("APP__SOURCE__MAX_FAILURES", "3")
    monkeypatch.setenv("APP__ENCRYPTION__MASTER_KEY", "ab" * 32)
    url = "postgresql://anna:geheim@db.example/headwater"
    shown = cli.json("config", "--database-url", url, "--json")
    values = {line["key"]: line for line in shown}
    assert values["app.source.max-failures"]["value"] == 3
    assert values["app.source.max-failures"]["origin"] == "APP__SOURCE__MAX_FAILURES"
    assert values["app.source.tick-seconds"]["origin"] == "headwater.yaml"
    assert values["app.database-url"]["origin"] == "option"
    text = cli("config", "--database-url", url).out
    assert "geheim" not in text + json.dumps(shown)
    assert "ab" * 32 not in text + json.dumps(shown)
    assert "app.source.tick-seconds\t1\theadwater.yaml" in text


def test_k7_migrate_reports_the_versions(cli):
    assert cli("migrate").out.startswith("Updated the schema from version 0 to ")
    assert "already" in cli("migrate").out


def test_backup_and_restore_bring_everything_back(cli, source):
    before = cli.json("list", "--json"), cli.json("posts", "--json")
    assert cli("backup", "copy.db").code == 0
    assert "never overwrites" in cli.fails("backup", "copy.db", code=2)
    cli("remove", source, "--yes")
    assert cli("restore", "copy.db", given="n\n").code == 1
    assert cli.json("list", "--json") == []
    assert cli("restore", "copy.db", "--yes").code == 0
    assert (cli.json("list", "--json"), cli.json("posts", "--json")) == before


def test_restore_refuses_an_invalid_backup_and_changes_nothing(cli, source):
    (cli.folder / "odd.db").write_bytes(b"no database at all" * 100)
    cli.fails("restore", "odd.db", "--yes", code=1)
    assert len(cli.json("posts", "--json")) == 5


def test_doctor_finds_no_fault_in_a_new_database(cli):
    assert "does not exist yet" in cli("doctor").out
    assert not (cli.folder / "data").exists()
    cli("migrate")
    checks = cli.json("doctor", "--json")
    assert {check["verdict"] for check in checks} <= {"ok", "note"}
    assert {check["check"] for check in checks} >= {
        "python", "HTTP client", "XML", "crypto", "configuration", "database", "schema",
        "pages", "integrity", "foreign keys", "disk", "master key", "polling", "names", "clock",
        "sources", "retention",
    }  # fmt: skip


def test_c1_doctor_explains_the_retention_of_processed_articles_unless_it_is_set(cli, monkeypatch):
    said = cli("doctor").out
    assert "processed articles and their posts forever" in said
    assert "set app.source.processed-retention-days" in said
    monkeypatch.setenv("APP__SOURCE__PROCESSED_RETENTION_DAYS", "90")
    said = cli("doctor").out
    assert "processed articles 90 days" in said
    assert "processed-retention-days" not in said


def test_vacuum_reports_the_size_before_and_after(cli, source):
    first, second = cli.json("vacuum", "--json"), cli.json("vacuum", "--json")
    assert 0 < second["bytesAfter"] <= second["bytesBefore"] == first["bytesAfter"]
    assert "MB after; file rewritten" in cli("vacuum").out
    assert len(cli.json("posts", "--json")) == 5


def test_u5_doctor_reports_a_master_key_that_others_can_read(cli):
    cli("keys", "set", "x", given="key\n")
    (file,) = (cli.folder / "data").glob("*.key")
    file.chmod(0o644)
    said = cli("doctor")
    assert said.code == 1
    assert f"chmod 600 data/{file.name}" in said.out
    os.unlink(file)
    assert "is missing, but API keys are stored" in cli("doctor").out


@pytest.mark.parametrize("damage", ["all", "inside"])
def test_k6_doctor_reports_damage_and_exits_1(cli, source, damage):
    file = cli.folder / "data" / "headwater.db"
    data = bytearray(file.read_bytes())
    start = 0 if damage == "all" else 4096 * 2
    data[start : start + 4096 * 6] = b"\x55" * (4096 * 6)
    file.write_bytes(data)
    for leftover in file.parent.glob("*-wal"):
        leftover.unlink()
    said = cli("doctor")
    assert (said.code, said.err) == (1, "")
    assert "✗" in said.out


def test_g1_doctor_names_the_invalid_setting(cli):
    (cli.folder / "headwater.yaml").write_text("app: {source: {max-failures: 0}}")
    said = cli("doctor")
    assert said.code == 1
    assert "✗ configuration: app.source.max-failures" in said.out


def test_w1_doctor_reports_that_pages_cannot_be_parsed(tmp_path):
    missing = "raise ModuleNotFoundError(\"No module named 'lxml_html_clean'\")"
    (tmp_path / "lxml_html_clean.py").write_text(missing)
    said = process(tmp_path, "doctor", PYTHONPATH=str(tmp_path))
    assert said.code == 1
    assert "✗ pages: a small page cannot be parsed" in said.out
    assert "lxml_html_clean" in said.out
    assert "→ install the pinned versions again" in said.out


def test_g1_doctor_goes_on_after_an_invalid_setting(cli):
    (cli.folder / "headwater.yaml").write_text("app: {source: {max-failures: 0}}")
    verdicts = {c["check"]: c["verdict"] for c in cli.json("doctor", "--json", code=1)}
    assert verdicts["configuration"] == "wrong"
    assert verdicts["pages"] == "ok"
    assert {"python", "HTTP client", "names"} <= set(verdicts)
