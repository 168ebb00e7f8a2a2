"""Validation messages state what is wrong and what would be valid."""

from typing import Any

import pytest

from tests.api.conftest import DEFAULT, Answer, Served

SOURCES = f"{DEFAULT}/sources"
URL = "https://example.org/feed"
JSON = {"Content-Type": "application/json"}


def messages_for(answer: Answer) -> dict[str, str]:
    """The message for each field."""
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
async def test_invalid_input_gets_a_plain_message(
    served: Served, path: str, body: Any, words: dict[str, str]
) -> None:
    answer = await served.post(path, body)
    assert messages_for(answer) == words
    if len(words) == 1:  # also in the detail, for clients that read nothing else
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
async def test_the_message_for_an_unknown_field_lists_the_known_ones(
    served: Served, path: str, body: Any, field: str, meant: str
) -> None:
    message = messages_for(await served.post(path, body))[field]
    assert message.startswith("there is no such field; ")
    assert meant in message


@pytest.mark.parametrize("media_type", ["", "text/plain", "application/x-www-form-urlencoded"])
async def test_the_message_for_another_content_type_asks_for_json(
    served: Served, media_type: str
) -> None:
    headers = {"Content-Type": media_type}
    answer = await served.post("/api/users", data=b'{"name": "ann"}', headers=headers)
    assert "`Content-Type: application/json`" in messages_for(answer)["body"]
    assert "`Content-Type: application/json`" in answer.json["detail"]
    none_at_all = await served.post("/api/users")
    assert "`Content-Type: application/json`" in messages_for(none_at_all)["body"]


async def test_the_message_for_broken_json_names_the_position(served: Served) -> None:
    answer = await served.post("/api/users", data=b'{"name": }', headers=JSON)
    assert messages_for(answer) == {"body": "the body is not JSON at character 10: Expecting value"}


async def test_parameters_are_reported_in_the_same_words(served: Served) -> None:
    assert messages_for(await served.get(f"{SOURCES}?limit=0&enabled=maybe")) == {
        "limit": "must be at least 1",
        "enabled": "must be true or false",
    }
    assert messages_for(await served.get(f"{SOURCES}?limit=5000")) == {
        "limit": "must be at most 500"
    }
    assert messages_for(await served.get("/api/users/" + "x" * 201)) == {
        "u": "must have at most 200 characters"
    }
