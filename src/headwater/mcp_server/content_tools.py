"""Tools about posts and articles."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from headwater.errors import CallFailed
from headwater.mcp_server.external_text import json_tokens, longest_start
from headwater.mcp_server.tool_call import (
    NAME,
    TITLE,
    Cursor,
    Id,
    Item,
    PodcastName,
    Tool,
    ToolCall,
    chosen,
    path_of,
    short_url,
)
from headwater.query.ranking import SearchOrder

_EXCERPT = 300  # characters of a search result
_MOST_TEXT = 50_000  # characters in a response
_MOST_TOKENS = 100_000
_ARTICLES_PER_PAGE = 50
_COPIES = 10
_POST_IDS = 20
_CATEGORIES = 10
_LEAST_TEXT = 50  # tokens of an article that is truncated
_SHORT = 1000  # tokens of annotations that are shown with an article
Day = Annotated[str | None, Field(max_length=40, description="A date such as 2026-02-16.")]


class SearchPosts(Tool):
    """Search the posts of a podcast, or list the newest; get_post reads the whole text of one.

    A query has words (all must occur), "phrases", -exclusions, OR, parentheses, prefixes such as
    invest*, and fields: title: author: url: category: source: type: lang: after: before: is:
    """

    podcast: PodcastName = None
    query: Annotated[
        str | None,
        Field(max_length=1000, description="The query. Left out: the newest posts."),
    ] = None
    source: Annotated[Id | None, Field(description="Only posts of this source, by its id.")] = None
    since: Day = None
    until: Day = None
    order: Annotated[SearchOrder, Field(description="Which posts come first.")] = SearchOrder.NEW
    limit: Annotated[int, Field(ge=1, le=50, description="Maximum number of posts.")] = 20
    cursor: Cursor = None

    async def run(self, call: ToolCall) -> dict[str, Any]:
        """A page of posts, with the beginning of their text."""
        path = await call.podcast_path(self.podcast)
        page = await call.get(
            f"{path}/posts",
            q=self.query,
            source=self.source,
            since=self.since,
            until=self.until,
            order=None if self.query is None else self.order.value,
            limit=self.limit,
            cursor=self.cursor,
        )
        items = [
            _content(call, post)
            | {"length": len(text_of(post)), "excerpt": call.external.mark(text_of(post), _EXCERPT)}
            for post in page["items"]
        ]
        return {"items": items, "nextCursor": page["nextCursor"]}


class GetPost(Tool):
    """Read one post with its text, as Markdown where there is structure.

    A long text comes in parts: `nextOffset` of the response is the `offset` of the next part.
    """

    podcast: PodcastName = None
    id: Annotated[Id, Field(description="The id of a post; search_posts finds them.")]
    offset: Annotated[int, Field(ge=0, le=10**9, description="Characters to skip.")] = 0
    max_characters: Annotated[
        int, Field(ge=100, le=_MOST_TEXT, description="Maximum length of the text.")
    ] = 20_000

    async def run(self, call: ToolCall) -> dict[str, Any]:
        """The post with a part of its text."""
        path = await call.podcast_path(self.podcast)
        post = await call.get(f"{path}/posts/{self.id}")
        text, end = text_of(post), self.offset + self.max_characters
        part = text[self.offset : end]
        copies = [
            chosen(one, ("postId", "timestamp"))
            | {"source": call.source_name(one["source"]), "url": short_url(one["link"])}
            for one in post["alsoFrom"][:_COPIES]
        ]
        return _content(call, post) | {
            "textFrom": post["textFrom"],
            "language": call.external.mark(post["language"], NAME),
            "categories": [
                call.external.mark(one, NAME) for one in post["categories"][:_CATEGORIES]
            ],
            "annotations": post["annotations"],
            "alsoFrom": copies,
            "length": len(text),
            "offset": self.offset,
            "text": call.external.mark(part, len(part)),
            "nextOffset": end if end < len(text) else None,
        }


class UnprocessedArticles(Tool):
    """List articles that are not processed yet, oldest first, as many as fit the token budget.

    `leftOut` says how many more there are, and `nextAfter` is the `after` that continues with
    them. An article that is longer than the whole budget is truncated: get_post reads its posts.
    mark_processed marks articles once they are used.
    """

    podcast: PodcastName = None
    max_tokens: Annotated[
        int,
        Field(ge=200, le=_MOST_TOKENS, description="Estimated size of the whole response."),
    ] = 20_000
    after: Annotated[
        int, Field(ge=0, lt=2**63, description="`nextAfter` of the previous response, to continue.")
    ] = 0

    async def run(self, call: ToolCall) -> dict[str, Any]:
        """The next articles within the budget."""
        podcast = await call.podcast(self.podcast)
        selection = _Selection(call, self.max_tokens, self.after, podcast["pendingPosts"])
        after = self.after
        while not selection.left_out:
            page = await call.get(
                f"{path_of(podcast)}/articles",
                processed="false",
                after=after,
                limit=_ARTICLES_PER_PAGE,
            )
            for article in page["items"]:
                selection.add(article)
            if page["nextAfter"] == after:
                break
            after = page["nextAfter"]
        # articles on further pages are not counted
        return selection.result(is_all=not selection.left_out, end=after)


class _Selection:
    """The first articles that fit a token budget."""

    def __init__(self, call: ToolCall, max_tokens: int, after: int, pending_posts: int) -> None:
        self._call = call
        self._max_tokens = max_tokens
        self._items: list[dict[str, Any]] = []
        self._after = after
        self._pending_posts = pending_posts
        self.left_out = 0
        # the largest values that the result can have
        frame = {"note": call.external.note, **self.result(is_all=False, end=2**63)}
        self._left = max_tokens - json_tokens(frame | {"leftOut": 10**6, "nextAfter": 2**63})

    def add(self, article: Item) -> None:
        """Take an article if it fits and all before it did; the first one is truncated if not."""
        if self.left_out:
            self.left_out += 1
            return
        text = text_of(article)
        item = _article(self._call, article)
        whole = item | {"text": self._call.external.mark(text, len(text))}
        if self._size(whole) > self._left:
            if self._items:
                self.left_out = 1
                return
            whole = self._start_of(item, text, least=self._size(whole))
        self._left -= self._size(whole)
        self._items.append(whole)
        self._after = article["seq"]

    def _start_of(self, item: dict[str, Any], text: str, least: int) -> dict[str, Any]:
        """The article with the start of its text; `least`: the size of the whole article."""
        shown = item | {"text": "", "isTruncated": True, "length": len(text)}
        frame = self._size(shown | {"text": self._call.external.mark("", 0)})
        room = self._left - frame
        if room < _LEAST_TEXT:
            needed = self._max_tokens - self._left + min(frame + _LEAST_TEXT, least)
            raise CallFailed(f"the next article needs a `max_tokens` of at least {needed}")
        length = longest_start(text, room)
        return shown | {"text": self._call.external.mark(text[:length], length)}

    def _size(self, item: Item) -> int:
        return json_tokens(item) + 1  # 1: a comma

    def result(self, *, is_all: bool, end: int) -> dict[str, Any]:
        """The response; `end`: the number after which to continue once all were returned."""
        shown: dict[str, Any] = {
            "items": self._items,
            "leftOut": self.left_out,
            "leftOutIsMinimum": not is_all,  # there may be more than those counted
            "nextAfter": end if is_all else self._after,
            "pendingPosts": self._pending_posts,  # in no article yet
        }
        return shown


class MarkProcessed(Tool):
    """Mark articles as processed, so that they are not listed again; all of them, or none.

    A batch names what they were used for. It can be undone in Headwater.
    """

    writes: ClassVar[bool] = True
    podcast: PodcastName = None
    ids: Annotated[list[Id], Field(min_length=1, max_length=500, description="Ids of articles.")]
    batch: Annotated[
        str | None, Field(min_length=1, max_length=200, description="Such as `episode 12`.")
    ] = None

    async def run(self, call: ToolCall) -> dict[str, Any]:
        """What was marked."""
        path = await call.podcast_path(self.podcast)
        body: dict[str, Any] = {"ids": self.ids}
        body |= {} if self.batch is None else {"batch": self.batch}
        marked = await call.api.call("POST", f"{path}/articles/processed", {}, body)
        return dict(marked)


class AnnotatedKind(StrEnum):
    """What is annotated."""

    ARTICLE = "article"
    POST = "post"


class Annotate(Tool):
    """Store a score or a JSON object with an article or post; what is not given is kept."""

    writes: ClassVar[bool] = True
    podcast: PodcastName = None
    id: Annotated[Id, Field(description="The id of the article or post.")]
    kind: AnnotatedKind = AnnotatedKind.ARTICLE
    score: Annotated[
        float | None, Field(allow_inf_nan=False, description="Any number; null removes it.")
    ] = None
    annotations: Annotated[
        dict[str, Any] | None,
        Field(description="At most 16 KB. It replaces the stored object; null removes it."),
    ] = None

    @model_validator(mode="after")
    def _changes_something(self) -> "Annotate":
        if not self.model_fields_set & {"score", "annotations"}:
            raise ValueError("give a score or annotations")
        return self

    async def run(self, call: ToolCall) -> dict[str, Any]:
        """The stored values."""
        path = await call.podcast_path(self.podcast)
        given = self.model_fields_set & {"score", "annotations"}
        body = {name: getattr(self, name) for name in sorted(given)}
        stored = await call.api.call("PATCH", f"{path}/{self.kind.value}s/{self.id}", {}, body)
        return {name: stored[name] for name in ("id", "score", "annotations")}


def text_of(item: Item) -> str:
    """The best text of a post or article."""
    text: str = item["body"] if item["markdown"] is None else item["markdown"]
    return text


def _content(call: ToolCall, item: Item) -> dict[str, Any]:
    """The fields of posts that every response has."""
    names = ("id", "sourceId", "publishedAt", "completeness", "score", "storyId", "expiresAt")
    marked = {
        "title": call.external.mark(item["title"], TITLE),
        "author": call.external.mark(item["author"], NAME),
    }
    shown = chosen(item, names) | chosen(marked, marked) | {"url": short_url(item["url"])}
    return shown | ({"copies": len(item["alsoFrom"])} if item["alsoFrom"] else {})


def _article(call: ToolCall, article: Item) -> dict[str, Any]:
    """An article without its text."""
    shown = _content(call, article) | {
        "source": call.source_name(article["source"]),
        "postIds": article["postIds"][:_POST_IDS],
    }
    annotations = article["annotations"]
    if annotations is not None and json_tokens(annotations) <= _SHORT:
        shown["annotations"] = annotations
    return shown
