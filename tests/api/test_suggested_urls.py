"""Suggested URLs of sources: shown, accepted, dismissed and undone (Y4, Y5)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from headwater.model import Redirect, Suggestion, SuggestionKind
from headwater.operations.rate_limits import POLL_SECONDS, VisitLimits
from headwater.rules.moves import move_suggestion
from headwater.store import Store
from tests.api.conftest import DEFAULT, Served
from tests.api.scripted_hosts import watch
from tests.store.store_data import StoreClock, a_success

OLD, NEW = "https://example.org/old.xml", "https://example.org/new.xml"
FOUND = {"url": NEW, "title": "River News", "found_on": "https://example.org/"}


async def suggest_move(served: Served, source_id: str) -> str:
    """Store that a source has moved, as polls do; return the id of the suggestion."""
    store: Store = served.app.store
    now, source = served.app.clock.now(), await store.sources.get(source_id)
    redirect = Redirect(NEW, now - timedelta(days=4), polls=12, is_suggested=True)
    suggestion = move_suggestion(source, redirect, now)
    polled = a_success(source)
    after = replace(polled.source, redirect=redirect)
    await store.record(replace(polled, source=after, suggestions={suggestion.kind: suggestion}))
    return suggestion.id


async def suggest_feed(served: Served, source_id: str) -> str:
    store: Store = served.app.store
    suggestion = Suggestion("found", SuggestionKind.FEED, FOUND, served.app.clock.now())
    polled = a_success(await store.sources.get(source_id))
    await store.record(replace(polled, suggestions={suggestion.kind: suggestion}))
    return suggestion.id


async def test_y4_a_move_is_shown_accepted_and_undone(served_by_each: Served):
    served = served_by_each
    source = await watch(served, OLD)
    twin = await watch(served, NEW)
    id_ = await suggest_move(served, source.rpartition("/")[2])
    shown = (await served.get(source)).json
    (suggestion,) = shown["suggestions"]
    assert shown["movedTo"] == suggestion["url"] == NEW
    assert (suggestion["kind"], suggestion["polls"], suggestion["id"]) == ("move", 12, id_)
    assert suggestion["since"] < suggestion["createdAt"]
    assert suggestion["duplicateOf"] == twin.rpartition("/")[2]
    (listed, _) = (await served.get(f"{DEFAULT}/sources")).json["items"]
    assert listed == shown

    accepted = (await served.post(f"{source}/suggestions/{id_}/accept")).json
    assert (accepted["url"], accepted["movedTo"], accepted["suggestions"]) == (NEW, None, [])
    assert accepted["lastSeenId"] == shown["lastSeenId"]
    assert accepted["movedFrom"]["url"] == OLD
    assert accepted["movedFrom"]["id"] == id_
    again = await served.post(f"{source}/suggestions/{id_}/accept")
    assert (again.status, again.json["url"]) == (200, NEW)

    undone = await served.post(f"{source}/suggestions/{id_}/undo")
    assert (undone.json["url"], undone.json["movedFrom"]) == (OLD, None)
    assert undone.headers["ETag"] == (await served.get(source)).headers["ETag"]
    for call in ("undo", "accept"):
        answer = await served.post(f"{source}/suggestions/{id_}/{call}")
        assert answer.status == 422
    assert (await served.post(f"{source}/suggestions/unknown/undo")).status == 404


async def test_y4_an_undo_after_another_edit_changes_nothing(served: Served):
    source = await watch(served, OLD)
    id_ = await suggest_move(served, source.rpartition("/")[2])
    await served.post(f"{source}/suggestions/{id_}/accept")
    await served.patch(source, {"url": "https://example.org/third.xml"})
    answer = await served.post(f"{source}/suggestions/{id_}/undo")
    assert (answer.status, "changed since" in answer.json["detail"]) == (422, True)
    assert (await served.get(source)).json["url"] == "https://example.org/third.xml"


async def test_y5_a_found_feed_replaces_a_lost_one_and_enables_its_source(served_by_each: Served):
    served = served_by_each
    source = await watch(served, OLD)
    source_id = source.rpartition("/")[2]
    id_ = await suggest_feed(served, source_id)

    def give_up(one: Any) -> Any:
        return replace(one, enabled=False, disabled_reason="Auto-disabled", consecutive_failures=5)

    before = await served.app.store.sources.edit(source_id, give_up)
    (suggestion,) = (await served.get(source)).json["suggestions"]
    assert suggestion["kind"] == "feed"
    assert suggestion["foundOn"] == "https://example.org/"
    assert suggestion["title"] == "River News"
    accepted = (await served.post(f"{source}/suggestions/{id_}/accept")).json
    assert (accepted["url"], accepted["enabled"], accepted["disabledReason"]) == (NEW, True, None)
    assert accepted["lastSeenId"] == before.last_seen_id
    undone = (await served.post(f"{source}/suggestions/{id_}/undo")).json
    assert (undone["url"], undone["enabled"]) == (OLD, True)


async def test_y8_suggestions_that_request_polls_are_limited_like_polls(served_by_each: Served):
    served, clock = served_by_each, StoreClock()
    served.app.visit_limits = VisitLimits(clock)
    ann, admin = await served.person("ann"), await served.admin()
    place = "/api/users/ann/podcasts/ann"
    source = await watch(served, OLD, place=place, token=ann)
    id_ = await suggest_move(served, source.rpartition("/")[2])
    batch = {"action": "poll", "ids": [source.rpartition("/")[2]]}
    assert (await served.post(f"{place}/sources/batch", batch, token=ann)).status == 200
    for call, url in (("accept", NEW), ("undo", OLD)):
        path = f"{source}/suggestions/{id_}/{call}"
        refused = await served.post(path, token=ann)
        assert (refused.status, refused.headers["Retry-After"]) == (429, str(POLL_SECONDS)), call
        assert (await served.get(source, token=ann)).json["url"] != url, "nothing is changed"
        clock.seconds += POLL_SECONDS
        assert (await served.post(path, token=ann)).json["url"] == url
        assert (await served.post(f"{source}/poll", token=ann)).status == 429
    other = await watch(served, OLD, place=place, token=ann)
    id_ = await suggest_move(served, other.rpartition("/")[2])
    for call in ("accept", "accept", "undo"):
        assert (await served.post(f"{other}/suggestions/{id_}/{call}", token=admin)).status == 200
