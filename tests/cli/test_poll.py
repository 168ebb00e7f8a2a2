"""Polling from the command line, and previews."""

import pytest

OUTCOME = {
    "sourceId", "url", "outcome", "newPosts", "skipped", "status", "failureType",
    "failureKind", "error", "durationMs",
}  # fmt: skip


def test_poll_of_a_url_stores_posts_and_then_finds_nothing_new(cli, web):
    url = web.url("feed.demo")
    cli("add", url, "--type", "rss", "--include-history")
    said = cli("poll", "--url", url)
    assert said.code == 0
    assert said.rows[0][:4] == ["stored", url, "200", "5"]
    again = cli("poll", "--url", url)
    assert again.rows[0][:4] == ["unchanged", url, "304", "0"]


def test_poll_outcomes_have_the_documented_fields(cli, web, source):
    (outcome,) = cli.json("poll", "--source", source[:8], "--json")
    assert set(outcome) == OUTCOME
    assert (outcome["sourceId"], outcome["outcome"], outcome["status"]) == (
        source,
        "unchanged",
        304,
    )
    assert outcome["skipped"] == dict.fromkeys(
        ("alreadySeen", "duplicate", "tooOld", "beforeCreation", "empty"), 0
    )


def test_one_failed_poll_is_exit_code_1(cli, web, source):
    cli("add", web.url("missing.demo"), "--type", "rss")
    said = cli("poll", "--all")
    assert said.code == 1
    assert sorted(row[0] for row in said.rows) == ["failed", "unchanged"]
    (failed,) = cli.json("poll", "--url", web.url("missing.demo"), "--json", code=1)
    assert (failed["failureType"], failed["status"]) == ("permanent", 404)
    assert failed["failureKind"] == "404"
    assert "404" in failed["error"]


def test_poll_of_several_sources(cli, web, source):
    added = cli.json("add", web.url("page.demo", "/today"), "--json")
    outcomes = cli.json("poll", "--source", source, "--source", added["id"], "--json")
    assert {outcome["sourceId"] for outcome in outcomes} == {source, added["id"]}


def test_y7_sources_with_the_same_address_share_a_request(cli, web):
    for _ in range(3):
        cli("add", web.url("feed.demo"), "--type", "rss", "--include-history", "--again")
    asked = len(web.visits_to("feed.demo"))
    outcomes = cli.json("poll", "--all", "--json")
    assert [outcome["newPosts"] for outcome in outcomes] == [5, 5, 5]
    assert len(web.visits_to("feed.demo")) == asked + 1


def test_s4_disabled_sources_are_polled_only_when_named(cli, source):
    cli("disable", source)
    assert cli("poll", "--all").rows == []
    assert len(cli("poll", "--source", source).rows) == 1
    assert cli.json("show", source, "--json")["enabled"] is False


def test_due_runs_one_tick(cli, web, source):
    assert cli("poll", "--due").rows == []
    cli("disable", source)
    cli("enable", source)  # requests a poll
    assert [row[0] for row in cli("poll", "--due").rows] == ["unchanged"]
    assert cli("poll", "--due").rows == []


def test_p10_a_host_on_hold_is_not_requested(cli, web):
    first, second, third = (web.url("limited.demo", f"/{n}") for n in "abc")
    for url in (first, second, third):
        cli("add", url, "--type", "rss")
    asked = len(web.visits_to("limited.demo"))
    outcomes = cli.json("poll", "--all", "--json", code=1)
    assert len(web.visits_to("limited.demo")) == asked + 1
    assert len(outcomes) == 3
    assert sum("on hold until" in outcome["error"] for outcome in outcomes) == 2
    assert cli("poll", "--source", cli.json("list", "--json")[0]["id"]).code == 1
    assert len(web.visits_to("limited.demo")) == asked + 1


def test_p9_a_tick_does_not_wait_for_the_end_of_a_hold(cli, web):
    for name in "xyz":
        url = web.url("limited.demo", f"/{name}")
        added = cli.json("add", url, "--type", "rss", "--json")
        cli("disable", added["id"])
        cli("enable", added["id"])
    assert [row[0] for row in cli("poll", "--due").rows] == ["failed"]


def test_when_the_wait_limit_is_reached_polls_stay_requested(cli, web, source):
    said = cli("poll", "--all", "--wait", 0)
    assert said.code == 1
    assert said.err == "headwater: 1 poll did not end in time; it stays requested\n"


def test_d3_a_poll_reports_why_entries_were_skipped(cli, web):
    said = cli("add", web.url("feed.demo"), "--poll")
    assert "Skipped: 5 published before you added it (`headwater edit " in said.err
    assert "--include-history` stores them)" in said.err
    again = cli("poll", "--url", web.url("feed.demo"))
    assert again.err == ""


def test_f3_a_poll_that_disables_its_source_reports_it_once(cli, web):
    cli("add", web.url("missing.demo"), "--type", "rss", "--max-failures", 1)
    said = cli("poll", "--all")
    assert "Auto-disabled after 1 consecutive 404 errors; `headwater enable " in said.err
    assert cli("poll", "--url", web.url("missing.demo")).err == ""


def test_d3_preview_reports_why_entries_would_not_be_stored(cli, web):
    said = cli("preview", web.url("feed.demo"))
    assert said.code == 0
    assert "type\trss" in said.out
    assert said.out.count("no: published before you added it") == 5
    assert cli("preview", web.url("feed.demo"), "--include-history").out.count("yes\t") == 5
    assert cli.fails("list", code=2).startswith("there is no database")  # nothing was stored


def test_d2_preview_applies_the_age_limit_of_the_podcast(cli, web):
    cli("podcasts", "add", "daily", "--max-article-age-days", 1)
    (entry, *_) = cli.json("preview", web.url("feed.demo"), "--podcast", "daily", "--json")[
        "entries"
    ]
    assert entry["reason"] == "beforeCreation"


def test_preview_reports_redirect_and_type(cli, web):
    found = cli.json("preview", web.url("moved.demo"), "--include-history", "--json")
    assert found["redirectedTo"] == web.url("feed.demo")
    assert (found["type"], found["wouldStore"], found["complete"]) == ("rss", 5, True)
    page = cli.json("preview", web.url("page.demo", "/today"), "--json")
    assert (page["type"], page["wouldStore"]) == ("website", 1)


@pytest.mark.parametrize("host", ["missing.demo", "broken.demo"])
def test_preview_of_a_failing_url_is_one_line(cli, web, host):
    cli.fails("preview", web.url(host), code=1)


def test_x1_preview_of_x_without_a_key_explains_what_to_do(cli):
    assert "key" in cli.fails("preview", "@weirwatch", code=1)
