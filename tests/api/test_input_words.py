"""Wrong input is answered in plain words: what is wrong, and what would be right."""

from typing import Any

import pytest

from tests.api.conftest import DEFAULT, Answer, Served

SOURCES = f"{DEFAULT}/sources"
URL = "https://example.org/feed"
JSON = {"Content-Type": "application/json"}


def told(answer: Answer) -> dict[str, str]:
    """What is said of each field."""
    assert answer.status == 422, answer.body
    return {error["field"]: error["message"] for error in answer.json["errors"]}


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/api/users", {}, {"name": "is missing"}),
        ("/api/users", {"name": ""}, {"name": "must not be empty"}),
        ("/api/users", {"name": 5}, {"name": "must be text"}),
        ("/api/users", {"name": "x" * 201}, {"name": "must have at most 200 characters"}),
        (
            "/api/users",
            {"name": "a\x01"},
            {"name": "control characters and broken characters cannot be stored"},
        ),
        ("/api/users", [1], {"body": "must be a JSON object"}),
        (f"{SOURCES}/batch", {"action": "poll", "ids": "x"}, {"ids": "must be a list"}),
        (
            f"{SOURCES}/batch",
            {"action": "poll", "ids": ["x"] * 100_001},
            {"ids": "must have at most 100,000 entries"},
        ),
        (
            SOURCES,
            {"url": URL, "pollIntervalMinutes": 0, "maxFailures": 1.5, "enabled": "yes"},
            {
                "pollIntervalMinutes": "must be at least 1",
                "maxFailures": "must be a whole number",
                "enabled": "must be true or false",
            },
        ),
        (
            SOURCES,
            {"url": URL, "pollDelaySeconds": 100_000, "type": "feed"},
            {
                "pollDelaySeconds": "must be at most 86,400",
                "type": "must be 'rss', 'website' or 'twitter'",
            },
        ),
    ],
)
async def test_what_is_wrong_is_said_in_plain_words(
    served: Served, path: str, body: Any, words: dict[str, str]
) -> None:
    answer = await served.post(path, body)
    assert told(answer) == words
    if len(words) == 1:  # and also where only the detail is read
        ((field, message),) = words.items()
        assert answer.json["detail"] == f"wrong input: {field}: {message}"


@pytest.mark.parametrize(
    ("path", "body", "field", "meant"),
    [
        (SOURCES, {"url": URL, "pollInterval": 5}, "pollInterval", "`pollIntervalMinutes`"),
        (SOURCES, {"url": URL, "poll_delay_seconds": 5}, "poll_delay_seconds", "`pollDelay"),
        ("/api/users", {"name": "x", "colour": 1}, "colour", "there are: name"),
        (f"{SOURCES}/batch", {"action": "poll", "filter": {"typ": 1}}, "filter.typ", "`type`"),
        (
            f"{SOURCES}/batch",
            {"action": "update", "ids": [], "set": {"lable": "x"}},
            "set.lable",
            "`label`",
        ),
    ],
)
async def test_a_field_that_nobody_knows_is_answered_with_those_there_are(
    served: Served, path: str, body: Any, field: str, meant: str
) -> None:
    message = told(await served.post(path, body))[field]
    assert message.startswith("there is no such field; ")
    assert meant in message


@pytest.mark.parametrize("media_type", ["", "text/plain", "application/x-www-form-urlencoded"])
async def test_a_body_that_is_not_said_to_be_json_is_told_how_to_say_so(
    served: Served, media_type: str
) -> None:
    headers = {"Content-Type": media_type}
    answer = await served.post("/api/users", data=b'{"name": "ann"}', headers=headers)
    assert "`Content-Type: application/json`" in told(answer)["body"]
    assert "`Content-Type: application/json`" in answer.json["detail"]
    none_at_all = await served.post("/api/users")
    assert "`Content-Type: application/json`" in told(none_at_all)["body"]


async def test_broken_json_is_answered_with_the_place_where_it_breaks(served: Served) -> None:
    answer = await served.post("/api/users", data=b'{"name": }', headers=JSON)
    assert told(answer) == {"body": "the body is not JSON at character 10: Expecting value"}


async def test_parameters_are_told_of_in_the_same_words(served: Served) -> None:
    assert told(await served.get(f"{SOURCES}?limit=5000&enabled=maybe")) == {
        "limit": "must be at most 500",
        "enabled": "must be true or false",
    }
    assert told(await served.get("/api/users/" + "x" * 201)) == {
        "u": "must have at most 200 characters"
    }
