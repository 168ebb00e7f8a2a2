"""The list of sources: access, and escaping of foreign text."""

from dataclasses import replace
from urllib.parse import urlencode

from tests.api.stored_data import source_of
from tests.store.store_data import a_failure
from tests.web.conftest import Fields, Visited
from tests.web.test_sources_page import LIST, words


async def test_hostile_labels_urls_and_errors_are_escaped(pages: Visited):
    evil = "</a><script>alert(1)</script>\"'<img src=x onerror=alert(2)>"
    source = await source_of(pages, label=evil, url=f"https://h.example/{evil}")
    current = await pages.app.store.sources.get(source.id)
    outcome = a_failure(current)
    assert outcome.failure is not None
    await pages.app.store.record(
        replace(
            outcome,
            failure=replace(outcome.failure, message=evil),
            source=replace(outcome.source, last_error=evil, disabled_reason=evil),
        )
    )
    for html in (
        await pages.text(LIST),
        await pages.text(f"{LIST}?{urlencode({'q': evil, 'host': evil})}"),
        (await pages.send(LIST, {"action": "delete", "id": source.id})).body.decode(),
        (await pages.send(LIST, {"action": evil, "minutes": evil, "id": evil})).body.decode(),
    ):
        assert "<script>alert" not in html
        assert "<img src=x" not in html
    assert evil in words(await pages.text(LIST)).replace("  ", " ")


async def test_u2_the_podcast_of_another_user_is_not_found(pages: Visited):
    hers, his = await pages.person("ada"), await pages.person("bob")
    source = await source_of(pages, "bob", label="a secret")
    podcast = await pages.podcast("bob", "bob")
    url = f"/podcasts/{podcast.id}/sources"
    assert "a secret" in await pages.text(url, token=his)
    assert "a secret" not in await pages.text(url, token=hers, status=404)
    assert (await pages.get("/podcasts/nobodys/sources", token=hers)).status == 404
    for fields in (
        {"action": "disable", "id": source.id},
        {"action": "delete", "id": source.id},
        {"action": "delete", "scope": "matching", "sure": "yes"},
    ):
        assert (await pages.send(url, fields, token=hers)).status == 404
    assert (await pages.app.store.sources.get(source.id)).enabled


async def test_u2_sources_of_another_cannot_be_chosen(pages: Visited):
    hers = await pages.person("ada")
    await pages.person("bob")
    own = await source_of(pages, "ada")
    source = await source_of(pages, "bob", label="a secret")
    url = f"/podcasts/{(await pages.podcast('ada', 'ada')).id}/sources"
    for action in ("disable", "delete", "poll", "update"):
        fields: Fields = {"action": action, "id": [own.id, source.id], "minutes": "5"}
        for sure in ("", "yes"):
            answer = await pages.send(url, {**fields, "sure": sure}, token=hers)
            assert answer.status == 404
            assert b"a secret" not in answer.body
            assert b"nothing was done" in answer.body
    for one in (own, source):
        assert await pages.app.store.sources.get(one.id) == one


async def test_u1_with_tokens_anonymous_users_are_redirected_to_the_login(pages: Visited):
    await pages.admin()
    answer = await pages.get(LIST)
    assert (answer.status, answer.headers["Location"]) == (
        303,
        "/login?next=%2Fpodcasts%2Fdefault%2Fsources",
    )
    source = await source_of(pages)
    fields = {"action": "delete", "scope": "matching", "sure": "yes"}
    assert (await pages.send(LIST, fields)).status in (303, 401)
    assert await pages.app.store.sources.get(source.id) == source
