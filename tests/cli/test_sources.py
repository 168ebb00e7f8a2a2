"""Adding, showing and changing sources."""

import json

import pytest

from tests.cli.running import ESCAPE

PUBLIC = set(
    """id podcastId type url label enabled pollIntervalMinutes pollDelaySeconds maxFailures
    maxBackoffHours lateEntryHours aggregate includeHistory createdAt lastPolled lastSuccessAt
    lastSeenId consecutiveFailures lastFailureType failingSince lastError disabledReason health
    host nextPollAt effectiveDelaySeconds effectiveIntervalMinutes postCount articleCount""".split()
)


@pytest.mark.parametrize(
    ("host", "path", "kind"),
    [("feed.demo", "/feed.xml", "rss"), ("page.demo", "/today", "website")],
)
def test_add_finds_the_type_out_by_a_visit(cli, web, host, path, kind):
    said = cli("add", web.url(host, path))
    assert said.code == 0
    assert said.out.split()[2] == kind


def test_n15_add_and_preview_name_the_feed_that_a_page_names(cli, web):
    feed = web.url("page.demo", "/feed.xml")
    said = cli("add", web.url("page.demo", "/"))
    assert (said.code, said.out.split()[2]) == (0, "website")
    id_ = said.out.split()[1]
    instead = f"`headwater edit {id_[:8]} --type rss --url URL` follows that instead"
    assert said.err == f"The page names a feed, {feed}; {instead}\n"
    assert f"feeds on the page\t{feed}\n" in cli("preview", web.url("page.demo", "/")).out


def test_add_knows_x_without_a_visit(cli):
    assert cli.json("add", "@weirwatch", "--json")["type"] == "twitter"


def test_add_says_how_to_go_on_when_the_visit_fails(cli, web):
    line = cli.fails("add", web.url("broken.demo"), code=1)
    assert "--type rss|website|twitter" in line
    assert cli.json("list", "--json") == []
    assert cli("add", web.url("broken.demo"), "--type", "rss").code == 0


def test_add_takes_every_setting(cli):
    added = cli.json(
        *("add", "https://example.org/feed", "--type", "rss", "--label", "News", "--interval", 60),
        *("--delay", 0, "--max-failures", 3, "--max-backoff-hours", 6, "--late-entry-hours", 12),
        *("--include-history", "--no-aggregate", "--json"),
    )
    assert set(added) == PUBLIC
    assert added["label"] == "News"
    assert added["pollIntervalMinutes"] == added["effectiveIntervalMinutes"] == 60
    assert (added["pollDelaySeconds"], added["effectiveDelaySeconds"]) == (0, 0)
    assert (added["maxFailures"], added["maxBackoffHours"], added["lateEntryHours"]) == (3, 6, 12)
    assert (added["includeHistory"], added["aggregate"]) == (True, False)
    assert added["createdAt"].endswith("Z")
    assert len(added["createdAt"]) == len("2026-02-16T08:00:00.000Z")


def test_add_with_poll_shows_what_came_of_it(cli, web):
    said = cli("add", web.url("feed.demo"), "--include-history", "--poll")
    assert said.code == 0
    assert "stored" in said.out
    assert cli("add", web.url("missing.demo"), "--type", "rss", "--poll").code == 1


def test_list_has_whole_urls_and_no_colours_in_a_pipe(cli):
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
def test_show_takes_an_id_a_beginning_or_the_url(cli, web, source, name):
    wanted = web.url("feed.demo", "/feed.xml") if name is None else name(source)
    shown = cli.json("show", wanted, "--json")
    assert (shown["id"], shown["health"], shown["postCount"]) == (source, "ok", 5)
    (poll,) = shown["polls"]
    assert (poll["outcome"], poll["status"], poll["newPosts"]) == ("stored", 200, 5)
    assert set(poll["skipped"]) == {
        "alreadySeen", "duplicate", "tooOld", "beforeCreation", "empty",
    }  # fmt: skip


def test_show_is_a_card_with_the_last_polls(cli, source):
    said = cli("show", source)
    assert f"id\t{source}" in said.out
    assert "health\tok" in said.out
    assert "stored\t200\t5\t" in said.out


def test_explain_goes_step_by_step(cli, source):
    said = cli("explain", source)
    assert said.out.startswith("1. interval: every 30 min\n2. ")
    assert "Next poll: in 29 min" in said.out
    explained = cli.json("explain", source, "--json")
    assert explained["nextPollAt"] == cli.json("show", source, "--json")["nextPollAt"]
    assert [step["what"] for step in explained["steps"]][:2] == ["interval", "last polled"]


def test_p6_a_source_that_was_never_polled_is_told_as_such(cli):
    cli("add", "https://a.invalid/feed", "--type", "rss")
    row = cli("list").rows[0]
    assert row[5:7] == ["never", "within 30 min"]
    cli("poll", "--due")  # first contact
    steps = cli.json("explain", "https://a.invalid/feed", "--json")["steps"]
    assert [step["what"] for step in steps] == ["interval", "first contact", "due", "lane"]
    assert cli("list").rows[0][5] == "never"


def test_the_last_poll_survives_a_clean_record(cli, web):
    url = web.url("missing.demo")
    cli("add", url, "--type", "rss", "--max-failures", 1, "--poll")
    cli("enable", url)
    assert cli("list").rows[0][5] != "never"
    assert "last polled: its newest poll" in cli("explain", url).out


def test_p9_a_hold_is_named_where_it_decides_the_next_poll(cli, web):
    polled, waiting = web.url("limited.demo", "/h1"), web.url("limited.demo", "/h2")
    cli("add", polled, "--type", "rss", "--poll")
    cli("add", waiting, "--type", "rss")
    cli("disable", waiting)
    cli("enable", waiting)
    first, second = (row[6] for row in cli("list").rows)
    assert "(hold)" not in first  # its backoff is longer
    assert "(hold)" in second
    assert "hold\tuntil 20" in cli("show", polled).out


def test_x1_a_missing_key_is_told_with_what_to_do(cli):
    advice = "API key: none; `headwater keys set x` stores one"
    assert advice in cli("add", "@weirwatch").err
    assert advice in cli("explain", "@weirwatch").out
    cli("keys", "set", "x", given="key\n")
    assert "API key" not in cli("explain", "@weirwatch").out
    assert cli("add", "@other").err == ""


def test_edit_changes_what_is_given(cli, source):
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


def test_f5_a_new_url_asks_for_a_poll(cli, web, source):
    said = cli("edit", source, "--url", web.url("page.demo", "/today"), "--type", "website")
    assert "a poll is requested" in said.out


def test_disable_and_enable(cli, source):
    assert cli("disable", source).code == 0
    disabled = cli.json("show", source, "--json")
    assert (disabled["health"], disabled["nextPollAt"]) == ("disabled", None)
    assert "switched off by a person" in cli("explain", source).out
    said = cli("enable", source)
    assert "a poll is requested" in said.out


def test_remove_asks_first(cli, source):
    said = cli("remove", source, given="n\n")
    assert said.code == 1
    assert "5 posts" in said.err
    assert len(cli.json("list", "--json")) == 1
    assert cli("remove", source, given="y\n").code == 0
    assert cli.json("list", "--json") == []


def test_remove_without_an_answer_removes_nothing(cli, source):
    said = cli("remove", source)
    assert (said.code, said.err.splitlines()[1:]) == (1, ["headwater: nothing was done"])
    assert cli("remove", source, "--yes").code == 0
    assert json.loads(cli("list", "--json").out) == []


def test_an_ambiguous_beginning_is_refused(cli):
    for number in range(40):
        cli_args = (f"https://example.org/{number}", "--type", "rss")
        cli("add", *cli_args)
    ids = [source["id"] for source in cli.json("list", "--json")]
    first = next(i[0] for i in ids if sum(other[0] == i[0] for other in ids) > 1)
    assert "give the whole id" in cli.fails("show", first, code=2)
