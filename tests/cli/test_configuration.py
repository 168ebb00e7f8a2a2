"""Export and application of configuration files on the command line (V3)."""

import sqlite3
from contextlib import closing

FILE = """\
podcasts:
  - name: morning
    maxArticleAgeDays: 3
    sources:
      - url: https://example.org/feed?token=secret
        label: Example
        folder: News
        pollIntervalMinutes: 60
"""


def test_v3_apply_shows_the_plan_applies_it_and_then_changes_nothing(cli):
    (cli.folder / "f.yaml").write_text(FILE)
    planned = cli("apply", "f.yaml", "--dry-run")
    assert planned.code == 0
    assert planned.rows == [
        ["added", "podcast", "morning", "morning", "maxArticleAgeDays: 3"],
        ["added", "source", "morning", "https://example.org/feed?token=***",
         "label: Example, folder: News, pollIntervalMinutes: 60, type: rss"],
    ]  # fmt: skip
    assert planned.err == "Nothing was changed (--dry-run): 2 added\n"
    assert cli.fails("podcasts", code=2).startswith("there is no database")
    done = cli("apply", "f.yaml")
    assert (done.code, done.rows, done.err) == (0, planned.rows, "Applied: 2 added\n")
    again = cli("apply", "f.yaml")
    assert (again.code, again.out, again.err) == (0, "", "Nothing to change.\n")
    entry = cli.json("audit", "--json")[0]
    assert (entry["action"], entry["detail"]) == ("configuration.apply", "added=2")
    (source,) = cli.json("list", "--podcast", "morning", "--json")
    assert source["folder"] == "News"
    assert "News" in cli("show", source["id"]).out


def test_v3_a_change_shows_the_old_and_the_new_value(cli):
    assert cli("apply", "-", given=FILE).code == 0
    given = FILE.replace("60", "90").replace("Example", "Other")
    (cli.folder / "f.yaml").write_text(given)
    planned = cli.json("apply", "f.yaml", "--dry-run", "--json")
    assert planned["applied"] is False
    (change,) = planned["changes"]
    assert change["changes"] == [
        {"name": "label", "before": "Example", "after": "Other"},
        {"name": "pollIntervalMinutes", "before": 60, "after": 90},
    ]
    shown = cli("apply", "f.yaml").rows[0][-1]
    assert shown == "label: Example → Other, pollIntervalMinutes: 60 → 90"


def test_v3_an_export_has_all_podcasts_or_one_and_complete_addresses(cli):
    assert cli("apply", "-", given=FILE).code == 0
    exported = cli("export", "--format", "yaml").out
    assert "https://example.org/feed?token=secret" in exported
    assert "- name: default\n" in exported
    one = cli("export", "--format", "yaml", "--podcast", "morning").out
    assert "- name: default\n" not in one
    assert cli("apply", "-", "--prune", given=exported).err == "Nothing to change.\n"
    other = ("--database-url", "sqlite:///other.db")
    assert cli("apply", "-", *other, given=exported).code == 0
    assert cli("export", "--format", "yaml", *other).out == exported


def test_v3_a_wrong_file_is_one_line_with_the_place_and_changes_nothing(cli):
    before = cli("export", "--format", "yaml").out if cli("migrate").code == 0 else ""
    wrong = FILE.replace("pollIntervalMinutes", "pollIntervall")
    message = cli.fails("apply", "-", code=2, given=wrong)
    assert message.startswith("-, line 8, column 9: unknown key `pollIntervall` of a source;")
    assert message.endswith("did you mean `pollIntervalMinutes`?")
    message = cli.fails("apply", "-", code=2, given=FILE.replace("60", "0"))
    assert message == "-, line 8, column 9: pollIntervalMinutes must be between 1 and 525600, not 0"
    large = FILE + "#" * 10_000_000
    assert "larger than 8 MiB" in cli.fails("apply", "-", code=2, given=large)
    assert "cannot be read" in cli.fails("apply", "nowhere.yaml", code=2)
    assert cli("export", "--format", "yaml").out == before


def test_e5_a_dry_run_says_what_a_lower_age_limit_would_delete(cli, source):
    posts = len(cli.json("posts", "--json"))
    with closing(sqlite3.connect(cli.folder / "data" / "headwater.db")) as database, database:
        database.execute("UPDATE posts SET created_at = created_at - 3 * 86400000")
    lower = "podcasts:\n  - name: default\n    maxArticleAgeDays: 2\n"
    (cli.folder / "f.yaml").write_text(lower)
    planned = cli("apply", "f.yaml", "--dry-run")
    assert planned.err.splitlines() == [
        "Nothing was changed (--dry-run): 1 changed",
        f"Applying it deletes 0 unprocessed articles and {posts} waiting posts at once.",
    ]
    found = cli.json("apply", "f.yaml", "--dry-run", "--json")
    assert found["wouldDelete"] == {"articles": 0, "posts": posts}
    (cli.folder / "f.yaml").write_text(lower.replace("2", "9"))
    found = cli.json("apply", "f.yaml", "--dry-run", "--json")
    assert found["wouldDelete"] == {"articles": 0, "posts": 0}
    assert cli("apply", "f.yaml", "--dry-run").err.count("\n") == 1
