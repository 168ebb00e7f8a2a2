"""JSON Feeds with wrong types, deep nesting and endless numbers."""

import json
from collections.abc import Callable
from functools import cache

from tests.hostile.documents import GOOD, GOOD_BODY, GOOD_TITLE
from tests.hostile.exchange import Exchange, answer
from tests.hostile.table import Failed, Stored, Unchanged, row

VERSION = "https://jsonfeed.org/version/1.1"
ITEM = {"id": "good", "url": "http://site.example/good", "title": GOOD_TITLE,
        "content_text": GOOD_BODY}  # fmt: skip
GOOD_ITEM = json.dumps(ITEM)
KEPT = Stored(1, (GOOD,))
NO_FEED = Failed("parse")
REFUSED = Failed("too expensive")
FULL = 9_900_000  # bytes


def feed(*items: str, more: str = "", end: str = "]}") -> bytes:
    """A JSON Feed around serialised items."""
    opening = f'{{"version": "{VERSION}", {more} "title": "J", "items": ['
    return (opening + ", ".join(items) + end).encode("utf-8", "surrogatepass")


def serve(document: bytes | Callable[[], bytes]):
    """Serve a document as JSON."""

    def talk(_: Exchange) -> bytes:
        body = document if isinstance(document, bytes) else document()
        return answer(body, "Content-Type: application/feed+json")

    return talk


WRONG = ("null", "1", "true", '"text"', "[]", "[[]]", "{}", '{"id": {}}', '{"title": ["a"]}',
         '{"url": 7, "content_html": {"a": 1}}', '{"authors": "me", "id": []}')  # fmt: skip


@cache
def deep_list() -> bytes:
    return feed(GOOD_ITEM, '{"id": "deep", "content_text": "Deep", "x": ' + "[" * 100_000)


@cache
def deep_objects() -> bytes:
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000
    return feed(f'{{"id": "deep", "x": {deep}}}', GOOD_ITEM)


@cache
def many_objects() -> bytes:
    return feed(*["{}"] * 300_000, GOOD_ITEM)


@cache
def long_number() -> bytes:
    return feed(f'{{"id": {"9" * 1_000_000}, "content_text": "Long"}}', GOOD_ITEM)


@cache
def many_authors() -> bytes:
    authors = json.dumps([{"name": ""}] * 50_000 + [{"name": "The last one"}])
    return feed(f'{{"id": "a", "content_text": "By many", "authors": {authors}}}')


@cache
def escapes() -> bytes:
    return feed('{"id": "e", "content_text": "' + "\\u0041" * 1_000_000 + '"}')


def full(piece: str) -> Callable[[], bytes]:
    """A JSON Feed of nearly 10 MB that repeats one piece."""
    return cache(lambda: feed(GOOD_ITEM, piece + ("," + piece) * (FULL // (len(piece) + 1))))


ROWS = (
    row("json of 3 million lists", "M4 H1", serve(full("[]")), REFUSED, heavy=True),
    row("json of 3 million objects", "M4 H1", serve(full("{}")), REFUSED, heavy=True),
    row("json of a million objects that hold something", "M4 H1", serve(full('{"a":1}')), REFUSED,
        heavy=True),
    row("json of 5 million numbers", "M4 H1", serve(full("0")), REFUSED, heavy=True),
    row("json of 2 million texts", "M4 H1", serve(full('"ab"')), REFUSED, heavy=True),
    row("json of 3 million lists, cut off", "M4 H1", serve(lambda: full("[]")()[:-2]), REFUSED,
        heavy=True),
    row("json of 800,000 numbers", "M4 H1",
        serve(cache(lambda: feed(GOOD_ITEM, "0" + ",0" * 800_000) + b" " * 8_000_000)), KEPT,
        heavy=True),
    row("json of 620,000 numbers and a wide character", "M4 H1",
        serve(cache(lambda: feed(GOOD_ITEM, '"\U0001f600"' + ",0" * 620_000) + b" " * 8_500_000)),
        KEPT, heavy=True),
    row("json of 400,000 different keys", "M4 H1",
        serve(cache(lambda: feed(GOOD_ITEM, "{" + ",".join(f'"k{n}":0' for n in range(400_000))
                                 + "}"))), REFUSED, heavy=True),
    row("json of 10 MB of charts", "M4",
        serve(cache(lambda: feed(GOOD_ITEM, '{"id": "c", "content_text": "' + "M1,2" * 2_400_000
                                 + '"}'))),
        Stored(2, (GOOD,)), heavy=True),
    row("json of 9 MB of words, one character wide", "M4 H1",
        serve(cache(lambda: feed(GOOD_ITEM, '{"id":"w","content_text":"\U0001f600'
                                 + "ab\n" * 3_300_000 + '"}'))),
        Stored(2, (GOOD,)), heavy=True),
    row("json 100,000 lists deep", "M4", serve(deep_list), KEPT, heavy=True),
    row("json 100,000 objects deep", "M4", serve(deep_objects), KEPT, heavy=True),
    row("json of nothing but depth", "M4", serve(b"[" * 5_000_000), REFUSED, heavy=True),
    row("json of 300,000 empty items", "M4 M8", serve(many_objects), Unchanged(), heavy=True),
    row("json number of a million digits", "M4", serve(long_number), Stored(2, (GOOD,)),
        heavy=True),
    row("json with a million escapes", "M4", serve(escapes),
        Stored(1, ({"body": "A" * 1_000_000},)), heavy=True),
    row("json with 50,000 authors", "M4 R6", serve(many_authors),
        Stored(1, ({"author": "The last one"},))),
    row("json with nan and infinity", "M4",
        serve(feed('{"id": NaN, "content_text": "n", "x": Infinity, "y": -Infinity}', GOOD_ITEM)),
        Stored(2, (GOOD,))),
    row("json with 1e999", "M4", serve(feed('{"id": 1e999, "content_text": "n"}', GOOD_ITEM)),
        Stored(2, (GOOD,))),
    row("json with wrong types in every place", "M4", serve(feed(*WRONG, GOOD_ITEM)),
        Stored(1, (GOOD,))),
    row("json with duplicate keys", "M4",
        serve(feed('{"id": "a", "id": "b", "content_text": "x", "content_text": "y"}', GOOD_ITEM)),
        Stored(2, (GOOD,))),
    row("json with a byte order mark", "M4", serve(b"\xef\xbb\xbf" + feed(GOOD_ITEM)), KEPT),
    row("json in utf-16", "M4", serve(feed(GOOD_ITEM).decode().encode("utf-16")), KEPT),
    row("json cut off", "R1 M4", serve(feed(GOOD_ITEM, '{"id": "cut", "content_te', end="")), KEPT),
    row("json with lone surrogates", "M4 M6",
        serve(feed('{"id": "s", "title": "a\\ud800b", "content_text": "c\\udfffd"}')),
        Stored(1, ({"title": "a\ufffdb", "body": "c\ufffdd"},))),
    row("json with nul", "M4 M6",
        serve(feed('{"id": "n\\u0000", "title": "a\\u0000b", "content_text": "c\\u0000d"}')),
        Stored(1, ({"title": "ab", "body": "cd"},))),
    row("json with raw control characters", "M4 M6",
        serve(feed('{"id": "c", "title": "a\x01b", "content_text": "c\nd"}')),
        Stored(1, ({"title": "ab"},))),
    row("json with bytes that are no text", "M4 M6",
        serve(feed('{"id": "b", "content_text": "x-y"}').replace(b"-", b"\xff")), Stored(1)),
    row("json with something behind it", "M4", serve(feed(GOOD_ITEM) + b"\n<!-- served -->"), KEPT),
    row("json with a comment", "M4",
        serve(feed(GOOD_ITEM).replace(b'"items"', b'/* x */ "items"')), KEPT),
    row("json with a trailing comma", "M4", serve(feed(GOOD_ITEM, end=",]}")), KEPT),
    row("json whose items are an object", "M4",
        serve(b'{"version": "%s", "items": {"0": 1}}' % VERSION.encode()), Unchanged()),
    row("json without items", "M4", serve(b'{"version": "%s"}' % VERSION.encode()), Unchanged()),
    row("json that is a list", "M4", serve(b"[1, 2, 3]"), NO_FEED),
    row("json that is an error", "M4", serve(b'{"error": "rate limited"}'), NO_FEED),
    row("json that is a number", "M4", serve(b"1" * 5000), NO_FEED),
    row("json cut off in its first key", "M4", serve(b'{"vers'), NO_FEED),
)  # fmt: skip
