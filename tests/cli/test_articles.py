"""Posts, articles and aggregation."""


def test_posts_are_shown_newest_first(cli, source):
    posts = cli.json("posts", "--json")
    assert len(posts) == 5
    assert posts == sorted(posts, key=lambda post: post["id"], reverse=True)
    assert set(posts[0]) == set(
        "id sourceId title body url publishedAt author contentHash createdAt".split()
    )
    assert len(cli.json("posts", "--source", source, "--limit", 2, "--json")) == 2
    assert len(cli("posts").rows) == 5


def test_a1_aggregate_makes_articles_once(cli, source):
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


def test_marking_an_unknown_article_is_wrong_usage(cli):
    assert "there is no article nope" in cli.fails("articles", "--mark", "nope", code=2)
