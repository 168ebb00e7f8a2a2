"""Adding, showing and changing sources."""

import json
import sqlite3
from contextlib import closing

import pytest
from pydantic.alias_generators import to_camel

from headwater.source_settings import SETTINGS
from tests.cli.command_runner import ESCAPE

PUBLIC = set(
    """id podcastId title createdAt lastPolled lastSuccessAt
    lastSeenId consecutiveFailures lastFailureType failingSince lastError disabledReason health
    host nextPollAt effectiveDelaySeconds effectiveIntervalMinutes postCount articleCount
    suggestions movedTo movedFrom filterStats""".split()
).union(map(to_camel, SETTINGS))


@pytest.mark.parametrize(
    ("host", "path", "kind"),
    [("feed.demo", "/feed.xml", "rss"), ("page.demo", "/today", "website")],
)
def test_add_determines_the_type_by_a_visit(cli, web, host, path, kind):
    said = cli("add", web.url(host, path))
    assert said.code == 0
    assert said.out.split()[2] == kind


def test_n15_add_and_preview_report_the_feed_that_a_page_names(cli, web):
    feed = web.url("page.demo", "/feed.xml")
    said = cli("add", web.url("page.demo", "/"))
    assert (said.code, said.out.split()[2]) == (0, "website")
    id_ = said.out.split()[1]
    edit = f"headwater edit {id_[:8]} --type rss --url {feed}"
    assert said.err == f"The page has a feed; to poll that instead: {edit}\n"
    assert f"feeds on the page\t{feed}\n" in cli("preview", web.url("page.demo", "/")).out


def test_add_recognises_x_without_a_visit(cli):
    assert cli.json("add", "@weirwatch", "--json")["type"] == "twitter"


def test_add_suggests_the_next_step_when_the_visit_fails(cli, web):
    line = cli.fails("add", web.url("broken.demo"), code=1)
    assert "--type rss|website|twitter" in line
    assert cli.json("list", "--json") == []
    assert cli("add", web.url("broken.demo"), "--type", "rss").code == 0


def test_j2_a_url_that_can_never_be_visited_is_refused_when_it_is_added(cli, monkeypatch):
    added = cli.json("add", "https://example.org/feed", "--type", "rss", "--json")
    monkeypatch.setenv("APP__FETCH__ALLOW_PRIVATE_NETWORKS", "false")
    private = "http://10.0.0.1/feed"
    for command in (
        ("add", private),  # without a visit
        ("add", private, "--type", "rss"),
        ("edit", added["id"], "--url", private),
    ):
        line = cli.fails(*command, code=2)
        assert "10.0.0.1 is not a public address (private)" in line
    assert [source["url"] for source in cli.json("list", "--json")] == [added["url"]]


def test_add_accepts_every_setting(cli):
    added = cli.json(
        *("add", "https://example.org/feed", "--type", "rss", "--label", "News", "--interval", 60),
        *("--delay", 0, "--max-failures", 3, "--max-backoff-hours", 6, "--late-entry-hours", 12),
        *("--include-history", "--no-aggregate", "--json"),
    )
    assert set(added) == PUBLIC | {"recognisedAs", "duplicateOf", "feeds"}
    assert added["label"] == "News"
    assert added["pollIntervalMinutes"] == added["effectiveIntervalMinutes"] == 60
    assert (added["pollDelaySeconds"], added["effectiveDelaySeconds"]) == (0, 0)
    assert (added["maxFailures"], added["maxBackoffHours"], added["lateEntryHours"]) == (3, 6, 12)
    assert (added["includeHistory"], added["aggregate"]) == (True, False)
    assert added["createdAt"].endswith("Z")
    assert len(added["createdAt"]) == len("2026-02-16T08:00:00.000Z")


def test_add_with_poll_shows_the_outcome(cli, web):
    said = cli("add", web.url("feed.demo"), "--include-history", "--poll")
    assert said.code == 0
    assert "stored" in said.out
    assert cli("add", web.url("missing.demo"), "--type", "rss", "--poll").code == 1


def test_list_has_complete_urls_and_no_colours_in_a_pipe(cli):
    url = "https://example.org/" + "long/" * 60
    cli("add", url, "--type", "rss", "--label", "Long")
    said = cli("list")
    assert said.code == 0
    assert said.rows[0][2] == url
    assert ESCAPE not in said.out
    assert said.out.isprintable() is False  # tabs and line breaks
    assert set(said.out) & set("│─┃━") == set()


def test_list_has_limits_and_filters(cli):
    for name in ("a", "b", "c"):
        cli("add", f"https://{name}.example/feed", "--type", "rss")
    cli("add", "@weirwatch")
    cli("disable", "https://b.example/feed")
    assert len(cli.json("list", "--json")) == 4
    assert len(cli.json("list", "--limit", 2, "--json")) == 2
    assert [s["host"] for s in cli.json("list", "--host", "b.example", "--json")] == ["b.example"]
    assert [s["url"] for s in cli.json("list", "--type", "twitter", "--json")] == ["@weirwatch"]
    disabled = cli.json("list", "--health", "disabled", "--limit", 5, "--json")
    assert [s["url"] for s in disabled] == ["https://b.example/feed"]
    assert len(cli.json("list", "--search", "C.EXAMPLE", "--json")) == 1


@pytest.mark.parametrize("name", [lambda i: i, lambda i: i[:6], None])
def test_show_accepts_an_id_a_prefix_or_the_url(cli, web, source, name):
    wanted = web.url("feed.demo", "/feed.xml") if name is None else name(source)
    shown = cli.json("show", wanted, "--json")
    assert (shown["id"], shown["health"], shown["postCount"]) == (source, "ok", 5)
    (poll,) = shown["polls"]
    assert (poll["outcome"], poll["status"], poll["newPosts"]) == ("stored", 200, 5)
    assert set(poll["skipped"]) == {
        "alreadySeen", "duplicate", "tooOld", "beforeCreation", "empty",
    }  # fmt: skip


def test_show_counts_polls_by_day(cli, source):
    assert cli.json("show", source, "--json")["days"] == []
    (day,) = cli.json("show", source, "--days", 7, "--json")["days"]
    assert (day["stored"], day["failed"], day["newPosts"], day["failures"]) == (1, 0, 5, {})
    assert day["day"] in cli("show", source, "--days", 7).out


def test_show_is_a_card_with_the_last_polls(cli, source):
    said = cli("show", source)
    assert f"id\t{source}" in said.out
    assert "health\tok" in said.out
    assert "stored\t200\t5\t" in said.out


def test_explain_lists_the_steps(cli, source):
    said = cli("explain", source)
    assert said.out.startswith("1. interval: every 30 min\n2. ")
    assert "Next poll: in 29 min" in said.out
    explained = cli.json("explain", source, "--json")
    assert explained["nextPollAt"] == cli.json("show", source, "--json")["nextPollAt"]
    assert [step["what"] for step in explained["steps"]][:2] == ["interval", "last polled"]


def test_g2_while_paused_no_next_poll_is_promised(cli, source):
    with closing(sqlite3.connect(cli.folder / "data" / "headwater.db")) as database:
        row = ("paused", "paused while configured running")  # as the API and the dashboard do
        database.execute("INSERT INTO facts (name, value) VALUES (?, ?)", row)
        database.commit()
    said = cli("explain", source).out
    assert "paused: the scheduler is paused" in said
    assert "Next poll: none while the scheduler is paused" in said
    assert "queues it" not in said
    assert cli.json("explain", source, "--json")["nextPollAt"] is None
    assert cli("list").rows[0][6] == "paused"
    assert "next poll\tpaused" in cli("show", source).out
    cli("disable", source)
    cli("enable", source)  # requests a poll, which runs all the same
    assert cli("list").rows[0][6] == "requested"


def test_p6_a_source_that_was_never_polled_is_reported_as_such(cli):
    cli("add", "https://a.invalid/feed", "--type", "rss")
    row = cli("list").rows[0]
    assert row[5:7] == ["never", "within 30 min"]
    cli("poll", "--due")  # first contact
    steps = cli.json("explain", "https://a.invalid/feed", "--json")["steps"]
    assert [step["what"] for step in steps] == ["interval", "first contact", "due", "lane"]
    assert cli("list").rows[0][5] == "never"


def test_the_last_poll_is_shown_after_the_failures_are_cleared(cli, web):
    url = web.url("missing.demo")
    cli("add", url, "--type", "rss", "--max-failures", 1, "--poll")
    cli("enable", url)
    assert cli("list").rows[0][5] != "never"
    assert "last polled: its newest poll" in cli("explain", url).out


def test_p9_a_hold_is_named_when_it_decides_the_next_poll(cli, web):
    polled, waiting = web.url("limited.demo", "/h1"), web.url("limited.demo", "/h2")
    cli("add", polled, "--type", "rss", "--poll")
    cli("add", waiting, "--type", "rss")
    cli("disable", waiting)
    cli("enable", waiting)
    first, second = (row[6] for row in cli("list").rows)
    assert "(hold)" not in first  # its backoff is longer
    assert "(hold)" in second
    assert "hold\tuntil 20" in cli("show", polled).out


def test_x1_a_missing_key_is_reported_with_what_to_do(cli):
    advice = "API key: none; `headwater keys set x` stores one"
    assert advice in cli("add", "@weirwatch").err
    assert advice in cli("explain", "@weirwatch").out
    cli("keys", "set", "x", given="key\n")
    assert "API key" not in cli("explain", "@weirwatch").out
    assert cli("add", "@other").err == ""


def test_edit_changes_the_given_fields(cli, source):
    changed = cli.json(
        "edit", source, "--interval", 90, "--delay", 5, "--aggregate", "--label", "New", "--json"
    )
    assert changed["pollIntervalMinutes"] == 90
    assert (changed["pollDelaySeconds"], changed["aggregate"], changed["label"]) == (5, True, "New")
    cleared = cli.json(
        "edit", source, "--clear", "delay", "--clear", "aggregate", "--clear", "label", "--json"
    )
    assert (cleared["pollDelaySeconds"], cleared["aggregate"], cleared["label"]) == (None,) * 3
    assert cleared["pollIntervalMinutes"] == 90


def test_f5_a_new_url_requests_a_poll(cli, web, source):
    said = cli("edit", source, "--url", web.url("page.demo", "/today"), "--type", "website")
    assert "a poll is requested" in said.out


def test_disable_and_enable(cli, source):
    assert cli("disable", source).code == 0
    disabled = cli.json("show", source, "--json")
    assert (disabled["health"], disabled["nextPollAt"]) == ("disabled", None)
    assert "disabled by a user" in cli("explain", source).out
    said = cli("enable", source)
    assert "a poll is requested" in said.out


def test_remove_asks_for_confirmation(cli, source):
    said = cli("remove", source, given="n\n")
    assert said.code == 1
    assert "5 posts" in said.err
    assert len(cli.json("list", "--json")) == 1
    assert cli("remove", source, given="y\n").code == 0
    assert cli.json("list", "--json") == []


def test_remove_without_confirmation_removes_nothing(cli, source):
    said = cli("remove", source)
    assert (said.code, said.err.splitlines()[1:]) == (1, ["headwater: nothing was done"])
    assert cli("remove", source, "--yes").code == 0
    assert json.loads(cli("list", "--json").out) == []


def test_an_ambiguous_prefix_is_refused(cli):
    for number in range(40):
        cli_args = (f"https://example.org/{number}", "--type", "rss")
        cli("add", *cli_args)
    ids = [source["id"] for source in cli.json("list", "--json")]
    first = next(i[0] for i in ids if sum(other[0] == i[0] for other in ids) > 1)
    assert "give the whole id" in cli.fails("show", first, code=2)


def test_a_source_is_found_by_its_label(cli, source):
    cli("edit", source, "--label", "River news")
    assert cli.json("show", "River news", "--json")["id"] == source
    assert "there is no source 'River'" in cli.fails("show", "River", code=2)
    cli("edit", source, "--label", source[:4])  # also the beginning of its id
    assert cli.json("show", source[:4], "--json")["id"] == source
    for path in "ab":
        other = cli.json("add", f"https://example.org/{path}", "--type", "rss", "--json")["id"]
        cli("edit", other, "--label", source[:4])
    assert "matches 3 sources; give the whole id" in cli.fails("show", source[:4], code=2)


def suggest(cli, source, *ids):
    """Store suggestions to ignore lines, as polls of a page do."""
    with closing(sqlite3.connect(cli.folder / "data" / "headwater.db")) as database:
        for id_ in ids:
            detail = json.dumps({"ignore": [f"{id_} #:#"]})
            row = (source, id_, detail)
            sql = """INSERT INTO suggestions (source_id, id, kind, detail, created_at, state)
                VALUES (?, ?, 'ignore', ?, 1, 'open')"""
            database.execute(sql, row)
        database.commit()


def test_w6_show_lists_suggestions_and_accept_applies_one(cli, source):
    assert "has no open suggestion" in cli.fails("accept", source, code=2)
    cli("edit", source, "--type", "website")
    suggest(cli, source, "clock", "count")
    shown = cli("show", source).out
    assert "clock: ignore “clock #:#”" in shown
    assert f"headwater accept {source[:8]}" in shown
    assert "name one of: clock, count" in cli.fails("accept", source, code=2)
    assert "no suggestion 'x'" in cli.fails("accept", source, "x", code=2)
    said = cli("accept", source[:8], "cl")
    assert said.out.startswith(f"Accepted clock of {source}: ignore “clock #:#”")
    changed = cli.json("show", source, "--json")
    assert changed["watch"]["ignore"] == ["clock #:#"]
    suggest(cli, source, "other")
    assert cli.json("accept", source, "--dismiss", "--json")["suggestions"] == []
    assert [one["action"] for one in cli.json("audit", "--json")][:2] == [
        "suggestion.dismiss", "suggestion.accept"
    ]  # fmt: skip


def test_y4_show_and_list_mention_a_new_url_and_accept_can_be_undone(cli, source):
    old, new = cli.json("show", source, "--json")["url"], "https://example.org/moved.xml"
    assert "no suggestion has changed" in cli.fails("accept", source, "--undo", code=2)
    with closing(sqlite3.connect(cli.folder / "data" / "headwater.db")) as database:
        sql = """INSERT INTO suggestions (source_id, id, kind, detail, created_at, state)
            VALUES (?, 'm1', 'move', ?, 1, 'open')"""
        database.execute(sql, (source, json.dumps({"url": new})))
        redirect = json.dumps([new, 1_771_200_000_000, 12, True])
        database.execute("UPDATE sources SET redirect = ? WHERE id = ?", (redirect, source))
        database.commit()
    assert f"m1: moved to {new}: 12 polls since 2026-02-16 led there" in cli("show", source).out
    assert "another URL is suggested" in cli("list").out
    assert cli("accept", source).out.startswith(f"Accepted m1 of {source}: moved to {new}")
    shown = cli("show", source).out
    assert f"moved from\t{old}" in shown
    assert f"`headwater accept {source[:8]} --undo` restores it" in shown
    assert cli.json("show", source, "--json")["url"] == new
    assert cli("accept", source, "--undo").out == f"{source} has the URL {old} again\n"
    assert cli.json("show", source, "--json")["url"] == old


def test_w4_preview_lists_the_parts_of_a_page_and_what_is_watched(cli, web):
    url = web.url("page.demo", "/today")
    blocks = cli.json("preview", url, "--json")["blocks"]
    assert blocks
    selector = blocks[-1]["selector"]
    found = cli("preview", url, "--watch", json.dumps({"include": [selector]}))
    assert "watched\tselector\ttext\n" in found.out
    assert f"yes\t{'  ' * blocks[-1]['depth']}{selector}\t" in found.out
    (paragraphs,) = (block for block in blocks if block["count"] > 1)
    assert f"article > p\tall {paragraphs['count']}: {paragraphs['text'][:20]}" in found.out
    assert "p:hover" in cli.fails("preview", url, "--watch", '{"include": ["p:hover"]}', code=2)
