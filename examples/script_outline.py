"""Makes the outline of an episode from the unprocessed articles of a podcast.

    python examples/script_outline.py --podcast default --batch "episode 1" > outline.md
    python examples/script_outline.py --podcast default --batch "episode 1" --undo

The articles in the outline are marked as processed, so that the next outline has only new ones;
`--undo` takes that back. A token is read from the environment variable HEADWATER_TOKEN.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby

from headwater.client import Article, Headwater, HeadwaterClientError

EXCERPT = 300  # characters


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; return its exit code."""
    options = parser().parse_args(arguments)
    token = os.environ.get("HEADWATER_TOKEN")
    try:
        with Headwater(options.url, token, user=options.user) as client:
            if options.undo:
                undo(client, options.podcast, options.batch)
            else:
                make(client, options.podcast, options.batch, options.min_score)
    except HeadwaterClientError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """The options of the script."""
    made = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    made.add_argument("--url", default="http://127.0.0.1:8420", help="the service (%(default)s)")
    made.add_argument("--user", default="default", help="the owner of the podcast (%(default)s)")
    made.add_argument("--podcast", default="default", help="its name or id (%(default)s)")
    made.add_argument("--batch", required=True, help='the name of the outline, as in "episode 1"')
    made.add_argument("--min-score", type=float, help="only articles with at least this score")
    made.add_argument("--undo", action="store_true", help="the articles are unprocessed again")
    return made


def make(client: Headwater, podcast: str, batch: str, min_score: float | None) -> None:
    """Print the outline, then mark its articles as processed."""
    client.aggregate(podcast)  # new posts become articles
    articles = list(client.articles(podcast, processed=False, min_score=min_score))
    if not articles:
        print("There are no unprocessed articles.", file=sys.stderr)
        return
    print("\n".join(outline(batch, articles)), flush=True)
    marking = client.mark_processed(podcast, [article.id for article in articles], batch)
    print(f"{marking.marked} articles are processed as {batch!r}.", file=sys.stderr)


def undo(client: Headwater, podcast: str, batch: str) -> None:
    """Mark the articles of an outline as unprocessed again."""
    undone = client.unprocess(podcast, batch=batch)
    print(f"{undone.unmarked} articles are unprocessed again.", file=sys.stderr)


def outline(name: str, articles: Sequence[Article]) -> Iterator[str]:
    """The lines of the outline in Markdown: a section per source, the best articles first."""
    yield f"# {name}"
    by_source = sorted(articles, key=source_name)
    for source, group in groupby(by_source, key=source_name):
        yield f"\n## {source}"
        for article in sorted(group, key=lambda one: -(one.score or 0)):
            yield f"\n### {article.title}\n"
            yield f"{headlines(article) or excerpt(article.body)}\n"
            yield f"- [Read it]({article.url}){published(article)}"
            for other in article.also_from:
                yield f"- Also in [{other.source.label or other.source.url}]({other.link})"


def source_name(article: Article) -> str:
    """What a listener would call the source of an article."""
    if article.source is None:
        return "Other sources"
    return article.source.label or article.source.url


def published(article: Article) -> str:
    """When an article was published, if that is known."""
    return "" if article.published_at is None else f", {article.published_at:%d %B %Y}"


def headlines(article: Article) -> str:
    """The posts of a digest as a list of links; empty if it has no headlines."""
    is_combined = len(article.post_ids) > 1
    lines = (article.markdown or "").splitlines() if is_combined else []
    return "\n".join(f"- {line[3:]}" for line in lines if line.startswith("## ["))


def excerpt(text: str) -> str:
    """The beginning of a text, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= EXCERPT else line[:EXCERPT].rsplit(" ", 1)[0] + " …"


if __name__ == "__main__":
    sys.exit(main())
