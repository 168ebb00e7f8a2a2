"""Who may use /mcp, and what of it: the rules of the API (V5, U1-U4, U8)."""

import json
from typing import Any

import pytest

from headwater.mcp_server.http_endpoint import HOW_TO_INSTALL
from headwater.model import TokenScope
from headwater.operations.tokens import add_token
from tests.api.conftest import Answer, Served
from tests.api.stored_data import articles_of, posts_of, source_of
from tests.mcp_server.conftest import READ_TOOLS, WRITE_TOOLS, connected

LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPT = {"Accept": "application/json, text/event-stream"}


async def post(served: Served, body: Any = LIST_TOOLS, **options: Any) -> Answer:
    options["headers"] = ACCEPT | options.get("headers", {})
    return await served.post("/mcp", body, **options)


async def a_token(served: Served, scope: TokenScope, user: str | None = None) -> str:
    store, now = served.app.store, served.app.clock.now()
    owner = None if user is None else await store.accounts.user(user)
    return (await add_token(store, owner, f"{scope} {user}", now, scope=scope)).secret


async def test_u2_without_a_valid_token_nothing_is_served_once_there_are_tokens(served: Served):
    assert (await post(served)).status == 200  # on loopback without tokens
    await served.admin()
    for token in (None, "hw_wrong"):
        answer = await post(served, token=token)
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    metrics = await a_token(served, TokenScope.METRICS)
    assert (await post(served, token=metrics)).status == 403


async def test_v5_read_tokens_see_and_use_read_tools_only(served: Served):
    source = await source_of(served)
    await posts_of(served, source, "a")
    (article,) = await articles_of(served)
    for scope, user, names in (
        (TokenScope.READ, None, READ_TOOLS),
        (TokenScope.READ, "default", READ_TOOLS),
        (TokenScope.USER, "default", READ_TOOLS + WRITE_TOOLS),
        (TokenScope.ADMIN, None, READ_TOOLS + WRITE_TOOLS),
    ):
        async with connected(served.url, await a_token(served, scope, user)) as tools:
            assert await tools.names() == names
            assert len((await tools.call("unprocessed_articles"))["items"]) == 1
            if names == READ_TOOLS:
                for tool, arguments in (
                    ("add_source", {"url": "http://example.org/feed", "type": "rss"}),
                    ("mark_processed", {"ids": [article]}),
                    ("annotate", {"id": article, "score": 1}),
                ):
                    assert "permits reading only" in await tools.error(tool, **arguments)
            else:
                assert (await tools.call("annotate", id=article, score=1))["score"] == 1


async def test_u2_a_user_reaches_own_data_only(served: Served):
    anna, bert = await served.person("anna"), await served.person("bert")
    foreign = await source_of(served, "bert")
    (post_of_bert,) = await posts_of(served, foreign, "a secret")
    (article,) = await articles_of(served, "bert")
    async with connected(served.url, anna) as tools:
        (own,) = (await tools.call("list_podcasts"))["items"]
        assert own["name"] == "anna"
        assert (await tools.call("list_sources"))["items"] == []  # there is only one podcast
        for podcast in ("bert", foreign.podcast_id, "default", "nobody"):
            error = await tools.error("list_sources", podcast=podcast)
            assert error == f"there is no podcast {podcast!r}; list_podcasts lists them"
        for tool, arguments in (
            ("source_health", {"source": foreign.id}),
            ("explain_source", {"source": foreign.id}),
            ("search_posts", {"source": foreign.id}),
            ("get_post", {"id": post_of_bert.id}),
            ("mark_processed", {"ids": [article]}),
            ("annotate", {"id": article, "score": 1}),
        ):
            assert "there is no" in await tools.error(tool, **arguments), tool
    async with connected(served.url, bert) as tools:
        assert (await tools.call("get_post", id=post_of_bert.id))["id"] == post_of_bert.id
    async with connected(served.url, await served.admin()) as tools:
        assert "podcasts" in await tools.error("list_sources")  # which of them?
        assert len((await tools.call("list_sources", podcast="bert"))["items"]) == 1


async def test_u9_changes_by_tools_are_in_the_audit_log(served: Served):
    token = await served.person("anna")
    async with connected(served.url, token) as tools:
        await tools.call("add_source", url="http://example.org/feed", type="rss")
        await tools.call("list_sources")
    entries = await served.app.store.audit.newest(limit=1)
    assert [(one.action, one.who) for one in entries] == [("source.add", "token anna of anna")]


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
async def test_u3_foreign_hosts_and_sites_are_refused(served: Served, headers: dict[str, str]):
    assert (await post(served, headers=headers)).status == 403


async def test_u8_large_bodies_are_refused(served: Served):
    big = LIST_TOOLS | {"params": {"cursor": "x" * 70_000}}
    assert (await post(served, big)).status == 413


@pytest.mark.parametrize("body", [b"", b"nonsense", b"[]", b"[[" * 30_000, b'{"jsonrpc": 1}'])
async def test_h4_invalid_messages_get_an_error(served: Served, body: bytes):
    headers = ACCEPT | {"Content-Type": "application/json"}
    answer = await served.post("/mcp", data=body, headers=headers)
    assert answer.status == 400
    assert "Traceback" not in answer.body.decode()
    assert (await post(served)).status == 200


async def test_only_post_is_taken_and_every_response_has_the_security_headers(served: Served):
    for method in ("GET", "DELETE", "PUT"):
        answer = await served.call(method, "/mcp", headers=ACCEPT)
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")
    answer = await post(served)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Type"].startswith("application/json")
    names = [tool["name"] for tool in json.loads(answer.body)["result"]["tools"]]
    assert names == READ_TOOLS + WRITE_TOOLS


async def test_a_caller_cannot_choose_an_identity_by_headers(served: Served):
    await served.admin()
    answer = await post(served, headers={"caller": "admin", "caller_name": "admin"})
    assert answer.status == 401


def test_the_hint_names_the_extra() -> None:
    assert "headwater[mcp]" in HOW_TO_INSTALL
