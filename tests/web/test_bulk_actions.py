"""Actions on many sources of the list, without script."""

import re
from typing import Any
from urllib.parse import urlencode

import pytest

from headwater.model import Source
from tests.api.conftest import Answer
from tests.api.stored_data import failed, posts_of, source_of
from tests.web.conftest import Visited
from tests.web.test_sources_page import LIST, words


async def state(pages: Visited, source: Source) -> Source:
    return await pages.app.store.sources.get(source.id)


async def message_after(pages: Visited, answer: Answer) -> str:
    """The message of the page that a response redirects to."""
    assert answer.status == 303, words(answer.body.decode())
    html = await pages.text(answer.headers["Location"])
    notice = re.search(r'class="banner good"[^>]*>([^<]*)<', html)
    assert notice is not None
    return notice[1]


async def do(pages: Visited, action: str, *sources: Source, **fields: Any) -> Answer:
    url = f"{LIST}?{urlencode(fields.pop('query', {}))}"
    return await pages.send(url, {"action": action, "id": [s.id for s in sources]} | fields)


async def test_chosen_sources_are_disabled_and_enabled(pages: Visited):
    one, two, other = [await source_of(pages) for _ in range(3)]
    said = await message_after(pages, await do(pages, "disable", one, two))
    assert said.startswith("Sources disabled: 2.")
    assert [(await state(pages, s)).enabled for s in (one, two, other)] == [False, False, True]
    said = await message_after(pages, await do(pages, "enable", one, other))
    assert said.startswith("Sources enabled: 1.")
    said = await message_after(pages, await do(pages, "enable", one))
    assert said.startswith("Nothing was changed")


async def test_chosen_sources_are_requested_and_get_a_new_interval(pages: Visited):
    one, two = await source_of(pages), await source_of(pages)
    said = await message_after(pages, await do(pages, "poll", one))
    assert said.startswith("Checks requested: 1.")
    assert (await state(pages, one)).requested_at is not None
    assert (await state(pages, two)).requested_at is None
    said = await message_after(pages, await do(pages, "update", two, minutes="240"))
    assert said == "Sources with the new interval: 1."
    assert (await state(pages, two)).poll_interval_minutes == 240


async def test_deleting_asks_for_confirmation_and_lists_what_is_deleted(pages: Visited):
    named = [await source_of(pages, label=f"Paper {n}") for n in range(7)]
    await posts_of(pages, named[0], "one")
    asked = await do(pages, "delete", *named)
    reported = words(asked.body.decode())
    assert asked.status == 200
    for text in ("Delete 7 sources?", "Paper 4", "and 2 more", "posts, articles and history"):
        assert text in reported
    assert (await state(pages, named[0])).enabled  # still there
    said = await message_after(pages, await do(pages, "delete", *named, sure="yes"))
    assert said == "Sources deleted: 7."
    assert "There are no sources yet" in await pages.text(LIST)


async def test_selecting_all_matches_uses_the_filter_and_asks_for_confirmation(pages: Visited):
    bad = [await source_of(pages, label="bad") for _ in range(60)]
    good = await source_of(pages)
    for source in bad:
        await failed(pages, source)
    query = {"health": "failing", "sort": "oldest"}
    for action, question in {
        "disable": "Disable 60 sources?",
        "poll": "Check 60 sources?",
        "update": "Change the interval of 60 sources?",
    }.items():
        asked = await do(pages, action, bad[0], query=query, scope="matching", minutes="90")
        assert asked.status == 200
        assert question in words(asked.body.decode())
        assert 'name="scope" value="matching"' in asked.body.decode()
    sure = {"scope": "matching", "sure": "yes"}
    done = await do(pages, "disable", query=query, **sure)
    assert (await message_after(pages, done)).startswith("Sources disabled: 60.")
    assert done.headers["Location"].startswith(f"{LIST}?health=failing&sort=oldest&done=")
    assert (await state(pages, good)).enabled
    assert not (await state(pages, bad[59])).enabled


async def test_selecting_all_without_a_filter_is_stated_explicitly(pages: Visited):
    await source_of(pages)
    asked = await do(pages, "delete", scope="matching")
    assert "No filter is set: these are all sources" in words(asked.body.decode())


async def test_an_invalid_filter_does_not_select_everything(pages: Visited):
    source = await source_of(pages)
    for query in ({"health": "splendid"}, {"type": "gopher"}, {"q": "x" * 501}):
        answer = await do(pages, "delete", query=query, scope="matching", sure="yes")
        assert answer.status == 422
    assert await state(pages, source) == source


@pytest.mark.parametrize("minutes", ["", "0", "525601", "ten", "1.5", "-3", "1" * 40, "²"])
async def test_an_invalid_interval_is_reported_at_its_field_and_the_input_is_kept(
    pages: Visited, minutes: str
):
    one, other = await source_of(pages), await source_of(pages)
    answer = await do(pages, "update", one, minutes=minutes)
    html = answer.body.decode()
    assert answer.status == 422
    assert "Give the interval in whole minutes, from 1 to 525,600." in html
    assert f'value="{minutes}" aria-invalid="true"' in html
    (box,) = re.findall(rf'value="{one.id}"[^>]*>', html)
    assert "checked" in box
    (box,) = re.findall(rf'value="{other.id}"[^>]*>', html)
    assert "checked" not in box
    assert (await state(pages, one)).poll_interval_minutes == 30


async def test_without_a_selection_the_page_explains_what_to_do(pages: Visited):
    await source_of(pages)
    answer = await do(pages, "disable")
    assert answer.status == 422
    assert "Check some sources first" in answer.body.decode()
    answer = await do(pages, "fly", await source_of(pages))
    assert answer.status == 422
    assert "Choose an action." in answer.body.decode()


async def test_a_source_deleted_in_the_meantime_changes_nothing(pages: Visited):
    one, gone = await source_of(pages), await source_of(pages)
    await pages.app.store.sources.remove(gone.id)
    for action in ("disable", "delete"):
        answer = await do(pages, action, one, gone)
        assert answer.status == 404
        assert "nothing was done" in answer.body.decode()
    odd = await pages.send(LIST, {"action": "disable", "id": [one.id, "\x00"]})
    assert odd.status in (404, 422)
    assert (await state(pages, one)).enabled


async def test_only_form_bodies_are_accepted(pages: Visited):
    source = await source_of(pages)
    answer = await pages.post(LIST, {"action": "delete", "id": [source.id], "sure": "yes"})
    assert answer.status == 422
    assert await state(pages, source) == source


async def test_viewing_changes_nothing(pages: Visited):
    source = await source_of(pages)
    await pages.text(f"{LIST}?action=delete&sure=yes&id={source.id}&scope=matching")
    assert await state(pages, source) == source
