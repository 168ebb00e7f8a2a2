"""Posts, articles and aggregation."""

import pytest

from tests.cli.command_runner import on_terminal


def test_posts_are_shown_newest_first(cli, source):
    posts = cli.json("posts", "--json")
    assert len(posts) == 5
    assert posts == sorted(posts, key=lambda post: post["id"], reverse=True)
    assert set(posts[0]) == set(
        "id seq sourceId title body markdown url publishedAt author contentHash createdAt "
        "enclosures categories language imageUrl completeness textFrom fullTextError score "
        "annotations storyId alsoFrom filteredBy expiresAt".split()
    )
    assert len(cli.json("posts", "--source", source, "--limit", 2, "--json")) == 2
    assert len(cli("posts").rows) == 5


def test_t1_one_post_is_shown_with_its_text(cli, source):
    post = cli.json("posts", "--json")[0]
    assert cli.json("post", post["id"], "--json") == post
    shown = cli("post", post["id"][-12:]).out
    assert shown.startswith(f"# {post['title']}\n\n- Link: <{post['url']}>\n- Source: <")
    assert shown.endswith(f"\n\n{post['markdown']}\n")
    assert "\n- Text: excerpt, from the feed\n" in shown
    assert "there is no post" in cli.fails("post", "nothing", code=2)


def test_w5_a_post_of_a_page_shows_what_changed(cli, web):
    page = cli.json("add", web.url("counter.demo", "/"), "--type", "website", "--json")["id"]
    for _ in range(2):
        assert cli("poll", "--source", page).code == 0
    newest, first = cli.json("posts", "--source", page, "--json")
    found = cli.json("post", newest["id"], "--diff", "--json")
    assert found["from"] == first["id"]
    assert [part["op"] for part in found["parts"]] == ["same", "removed", "added"]
    before, after = (post["body"].partition("again. ")[2] for post in (first, newest))
    shown = cli("post", newest["id"], "--diff")
    assert shown.out == f"  The river rose again.\n- {before}\n+ {after}\n"
    said = cli("post", first["id"], "--diff")
    assert said.out == f"+ The river rose again.\n+ {before}\n"
    assert "no previous version" in said.err


def test_ids_in_a_pipe_are_complete(cli, source):
    shown = [row[0] for row in cli("posts").rows]
    assert shown == [post["id"] for post in cli.json("posts", "--json")]
    assert cli("post", shown[0]).code == 0


def test_a1_aggregate_creates_articles_once(cli, source):
    made = cli.json("aggregate", "--json")
    assert (made["created"], made["linkedPosts"], len(made["items"])) == (5, 5, 5)
    assert cli.json("aggregate", "--json")["created"] == 0
    assert cli("aggregate").out == "0 articles made of 0 posts\n"


def test_a3_articles_are_marked_as_processed(cli, source):
    cli("aggregate")
    articles = cli.json("articles", "--unprocessed", "--json")
    assert len(articles) == 5
    assert articles[0]["isProcessed"] is False
    first, second, *_ = (article["id"] for article in articles)
    assert cli("articles", "--mark", first, "--mark", second).out == "Marked 2\n"
    assert cli.json("articles", "--mark", first, "--json") == {"marked": 0}
    assert cli.json("articles", "--mark", first[-8:], "--json") == {"marked": 0}
    assert cli.json("articles", "--mark", f"…{first[-8:]}", "--json") == {"marked": 0}
    assert cli.json("articles", "--mark", first[:-1], "--json") == {"marked": 0}
    assert "fits 5 articles" in cli.fails("articles", "--mark", first[:3], code=2)
    assert len(cli.json("articles", "--processed", "--json")) == 2
    assert len(cli.json("articles", "--unprocessed", "--json")) == 3
    assert len(cli("articles").rows) == 5


def test_marking_an_unknown_article_is_a_usage_error(cli):
    cli("migrate")
    assert "there is no article nope" in cli.fails("articles", "--mark", "nope", code=2)


def newest_actions(cli, count):
    """The actions of the newest entries of the audit log, newest first (U9)."""
    return [entry["action"] for entry in cli.json("audit", "--json")[:count]]


def test_e1_marked_articles_are_listed_by_batch_and_undone(cli, source):
    cli("aggregate")
    ids = [article["id"] for article in cli.json("articles", "--json")]
    marks = [part for id_ in ids[:2] for part in ("--mark", id_)]
    assert cli("articles", *marks, "--batch", "episode 1").out == "Marked 2\n"
    (batch,) = cli.json("batches", "--json")
    assert (batch["name"], batch["articles"]) == ("episode 1", 2)
    assert [row[:2] for row in cli("batches").rows] == [["episode 1", "2"]]
    of_batch = cli.json("articles", "--batch", "episode 1", "--json")
    assert [article["id"] for article in of_batch] == ids[:2]
    assert cli.json("articles", "--batch", "episode 1", "--unprocessed", "--json") == []
    assert cli("articles", "--batch", "episode 2").rows == []

    assert cli("unprocess", ids[0][-12:]).out == "1 article no longer processed\n"
    undone = cli.json("unprocess", "--batch", "episode 1", "--json")
    assert undone == {"unmarked": 1, "already": 0, "deletedDigests": 0, "freedPosts": 0}
    assert len(cli.json("articles", "--unprocessed", "--json")) == 5

    assert "there is no batch 'episode 1'" in cli.fails("unprocess", "--batch", "episode 1", code=2)
    assert "give either" in cli.fails("unprocess", code=2)
    assert newest_actions(cli, 2) == ["articles.unprocess", "articles.unprocess"]


def test_e1_e4_articles_are_shown_with_source_score_and_batch(cli, source):
    cli("aggregate")
    first, second, *_ = (article["id"] for article in cli.json("articles", "--json"))
    heading = cli("articles").out.splitlines()[0].split("\t")
    assert heading[-1] == "source"
    cli("annotate", first, "--score", 8.5)
    cli("articles", "--mark", second, "--batch", "episode 1")
    shown = cli("articles")
    assert shown.out.splitlines()[0].split("\t") == [*heading, "score", "batch"]
    url = cli.json("show", source, "--json")["url"]
    cells = {row[0]: row[-3:] for row in shown.rows}
    assert (cells[first], cells[second]) == ([url, "8.5", ""], [url, "", "episode 1"])


def test_e2_an_article_is_deleted_and_its_post_freed_or_dropped(cli, source):
    cli("aggregate")
    first, second, *_ = (article["id"] for article in cli.json("articles", "--json"))
    assert cli("discard", first, "--yes").out == "Deleted; 1 post freed\n"
    assert cli("discard", second, "--drop-posts", "--yes").out == "Deleted; 1 post deleted\n"
    assert newest_actions(cli, 2) == ["article.delete", "article.delete"]
    assert cli.json("aggregate", "--json")["linkedPosts"] == 1
    assert len(cli.json("posts", "--json")) == 4


def test_e4_scores_and_annotations_are_stored_and_removed(cli, source):
    cli("aggregate")
    article = cli.json("articles", "--json")[0]["id"]
    post = cli.json("posts", "--json")[0]["id"]
    stored = cli.json("annotate", article, "--score", "0.5", "--set", '{"a": 1}', "--json")
    assert (stored["score"], stored["annotations"]) == (0.5, {"a": 1})
    assert cli("annotate", post[-12:], "--post", "--score", 2).code == 0
    assert cli.json("post", post, "--json")["score"] == 2
    assert [a["id"] for a in cli.json("articles", "--min-score", 0.5, "--json")] == [article]
    assert newest_actions(cli, 2) == ["post.annotate", "article.annotate"]
    removed = cli.json("annotate", article, "--score", "none", "--set", "none", "--json")
    assert (removed["score"], removed["annotations"]) == (None, None)
    for options, message in (
        ([], "give --score or --set"),
        (["--score", "inf"], "--score: 'inf' is not a number"),
        (["--set", "[1]"], "--set: must be a JSON object"),
        (["--set", '{"a": "%s"}' % ("x" * 16_384)], "--set: must have at most 16,384 bytes"),
    ):
        assert message in cli.fails("annotate", article, *options, code=2)


def test_i2_i3_a_post_shows_who_else_has_its_story_and_can_leave_it(cli, web):
    for path in ("/feed.xml", "/feed.xml?copy"):
        url = web.url("feed.demo", path)
        cli("add", url, "--type", "rss", "--label", path, "--include-history", "--poll")
    assert len(cli.json("posts", "--json")) == 10
    cli("aggregate")  # which groups them first
    once = cli.json("posts", "--stories", "--json")
    assert len(once) == 5
    found = cli.json("search", "type:rss", "--stories", "--json")
    assert {item["id"] for item in found} == {item["id"] for item in once}
    post = once[0]
    (also,) = post["alsoFrom"]
    shown = cli("post", post["id"]).out
    assert f"- Also from: {also['source']['label']}, " in shown
    said = "Removed the post from its story\n"
    assert cli("post", post["id"], "--undo-story").out == said
    assert cli("post", post["id"], "--undo-story").out == "The post is in no story\n"
    assert len(cli.json("posts", "--stories", "--json")) == 6
    assert cli.json("aggregate", "--json")["linkedPosts"] == 1


@pytest.mark.system
def test_e2_a_plan_names_the_copies_of_stories(cli, web):
    for path in ("/feed.xml", "/feed.xml?copy"):
        url = web.url("feed.demo", path)
        cli("add", url, "--type", "rss", "--include-history", "--poll")
    cli("aggregate")  # which groups them first
    article = cli.json("articles", "--json")[0]
    assert cli("discard", article["id"], "--yes").out == "Deleted; 2 posts freed\n"
    shown = on_terminal(cli.folder, "aggregate", "--dry-run")
    assert "1 article would be made of 1 post and 1 copy of their stories" in shown.out


def test_b3_a_search_is_limited_by_score_filter_and_processing(cli, source):
    def found(*options):
        return {item["id"] for item in cli.json("search", "type:rss", *options, "--json")}

    scored, hidden, *others = cli.json("posts", "--json")
    assert len(found()) == 5
    assert cli("annotate", scored["id"], "--post", "--score", 2).code == 0
    assert found("--min-score", 1.5) == {scored["id"]}
    assert found("--min-score", 3) == set()
    assert cli("edit", source, "--block", f'title:"{hidden["title"]}"').code == 0
    assert found("--filtered") == {hidden["id"]}
    assert found() == {scored["id"], *(post["id"] for post in others)}
    cli("aggregate")
    first = cli.json("articles", "--json")[0]
    cli("articles", "--mark", first["id"])
    assert found("--processed") == set(first["postIds"])
    assert found("--unprocessed") == found() - found("--processed")
    assert found("--articles", "--processed") == {first["id"]}
    assert len(found("--articles", "--unprocessed")) == 3
