"""Events over real connections: order, schemas, reconnects, filters and access."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headwater.api.events.event_log import EventLimits
from headwater.api.schemas.outputs import PostOut
from headwater.api.schemas.source_outputs import PollOut
from headwater.demo.demo_web import Reply, Request
from headwater.engine.events import EventKind
from headwater.model import Outcome, OutcomeKind, Subject
from tests.api.conftest import DEFAULT, Served, serving, settings_in
from tests.api.event_stream_client import ReceivedEvent, event_stream
from tests.factories import a_post, a_subject
from tests.system.conftest import feed_site, web_of

ABOUT = {"at", "sourceId", "podcastId", "userId", "url", "host"}
MANY = 60


def names(shape: type[Any]) -> set[str]:
    return {str(field.alias) for field in shape.model_fields.values()}


# of the event of a new post
LATER_FIELDS = {
    "body",
    "markdown",
    "enclosures",
    "categories",
    "fullTextError",
    "filteredBy",
    "score",
    "annotations",
    "expiresAt",
    "storyId",
    "alsoFrom",
}
POST_FIELDS = names(PostOut) - LATER_FIELDS


def kinds(found: list[ReceivedEvent]) -> list[str]:
    return [event.kind for event in found]


def emit(served: Served, subject: Subject, kind: EventKind = EventKind.POLL_STARTED) -> None:
    served.service.events.emit(kind, subject)


async def add(served: Served, url: str, place: str = DEFAULT, **more: Any) -> str:
    """Add a source and return its id."""
    body = {"type": "rss", "url": url, "includeHistory": True} | more
    made = await served.post(f"{place}/sources", body)
    assert made.status == 201, made.body
    return str(made.json["id"])


async def test_a_poll_is_reported_in_order_with_its_posts_and_outcome(served_by_each: Served):
    served = served_by_each
    async with web_of(feeds=feed_site(entries=2)) as web, event_stream(served) as stream:
        url = web.url("feeds", "/a")
        source_id = await add(served, url)
        await served.service.poll_now(source_id)
        found = await stream.until("poll.finished")
    assert kinds(found) == ["poll.started", "post.created", "post.created", "poll.finished"]
    numbers = [event.number for event in found]
    assert numbers == sorted(set(numbers))
    started, first, second, finished = (event.data for event in found)
    assert set(started) == ABOUT
    assert (started["sourceId"], started["url"]) == (source_id, url)
    assert (started["podcastId"], started["userId"]) == ("default", "default")
    assert started["host"].startswith("127.")
    assert set(finished) == ABOUT | names(PollOut)
    assert (finished["outcome"], finished["newPosts"], finished["status"]) == ("stored", 2, 200)
    assert set(finished["skipped"].values()) == {0}
    assert set(first) == ABOUT | POST_FIELDS
    listed = (await served.get(f"{DEFAULT}/sources/{source_id}/posts")).json["items"]
    plain = [{name: post[name] for name in POST_FIELDS} for post in listed]
    reported = [{name: data[name] for name in POST_FIELDS} for data in (first, second)]
    assert sorted(reported, key=lambda post: post["id"]) == sorted(
        plain, key=lambda post: post["id"]
    )


async def test_f3_disabling_and_recovering_are_reported(served: Served):
    visits: list[str] = []

    def site(request: Request) -> Reply:
        visits.append(request.path)
        if request.path == "/gone":
            return Reply(410)
        return Reply(500) if visits.count("/ill") == 1 else feed_site()(request)

    async with web_of(site=site) as web, event_stream(served) as stream:
        gone = await add(served, web.url("site", "/gone"), maxFailures=1)
        ill = await add(served, web.url("site", "/ill"))
        await served.service.poll_now(gone)
        disabled = (await stream.until("source.disabled"))[-2:]
        await served.service.poll_now(ill)
        await served.service.poll_now(ill)
        recovered = (await stream.until("source.recovered"))[-1]
    failed = disabled[0].data
    assert failed["failureKind"] == "410"
    assert (failed["outcome"], failed["failureType"], failed["status"]) == (
        "failed",
        "permanent",
        410,
    )
    assert disabled[1].data["sourceId"] == gone
    assert "410" in disabled[1].data["disabledReason"]
    assert (recovered.data["sourceId"], set(recovered.data)) == (ill, ABOUT)


async def test_ticks_and_outages_are_sent_to_every_user(served: Served):
    ada = await served.person("Ada")
    async with event_stream(served, token=ada) as stream:
        await served.service.tick()
        served.service.events.emit(EventKind.OUTAGE, text="DNS")
        served.service.events.emit(EventKind.OUTAGE, text=None)
        tick, began, ended = await stream.take(3)
    assert (tick.kind, tick.data["sources"]) == ("tick", 0)
    assert [(event.kind, event.data["kind"]) for event in (began, ended)] == [
        ("outage", "DNS"),
        ("outage", None),
    ]


async def test_the_response_forbids_caching_and_buffering(served: Served):
    async with event_stream(served) as stream:
        headers = stream.answer.headers
    assert headers["Content-Type"].startswith("text/event-stream")
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Accel-Buffering"] == "no"
    assert "Content-Encoding" not in headers


@pytest.mark.parametrize("by", ["header", "query"])
async def test_a_client_that_reconnects_gets_every_event_once(served: Served, by: str):
    posts = [a_post(str(n)) for n in range(MANY)]
    source = a_subject().source
    outcome = Outcome(source, source, OutcomeKind.STORED, served.app.clock.now(), tuple(posts))
    seen: list[ReceivedEvent] = []
    async with event_stream(served) as stream:
        last_id = stream.last_id
    served.service.events.emit(EventKind.POST_CREATED, a_subject(), outcome=outcome)
    emit(served, a_subject(), EventKind.SOURCE_RECOVERED)
    while len(seen) < MANY + 1:
        query = f"?lastEventId={last_id}" if by == "query" else ""
        header = last_id if by == "header" else None
        async with event_stream(served, query, last_id=header) as stream:
            seen += await stream.take(min(25, MANY + 1 - len(seen)))
        last_id = seen[-1].id
    assert [event.data.get("id") for event in seen] == [*(post.id for post in posts), None]
    assert [event.number for event in seen] == list(range(1, MANY + 2))


async def test_the_first_line_has_an_id_to_resume_from(served: Served):
    emit(served, a_subject())
    async with event_stream(served) as stream:
        last_id = stream.last_id
    emit(served, a_subject(), EventKind.SOURCE_RECOVERED)
    async with event_stream(served, last_id=last_id) as stream:
        assert kinds(await stream.take(1)) == ["source.recovered"]


@pytest.mark.parametrize("odd", ["1-1", "nonsense", "%F0%9F%A6%86", "9" * 200])
async def test_an_unknown_id_starts_with_a_reset_and_continues(served: Served, odd: str):
    emit(served, a_subject())
    async with event_stream(served, f"?lastEventId={odd}") as stream:
        reset = await stream.next()
        assert reset is not None
        assert (reset.kind, reset.id, set(reset.data)) == (
            "reset",
            stream.last_id,
            {"at", "reason"},
        )
        emit(served, a_subject(), EventKind.SOURCE_RECOVERED)
        assert kinds(await stream.take(1)) == ["source.recovered"]
    async with event_stream(served, last_id=reset.id) as stream:
        assert kinds(await stream.take(1)) == ["source.recovered"]


async def test_an_id_outside_the_window_starts_with_a_reset(tmp_path: Path):
    async with serving(settings_in(tmp_path), EventLimits(most_events=5)) as served:
        async with event_stream(served) as stream:
            last_id = stream.last_id
        for _ in range(6):
            emit(served, a_subject())
        async with event_stream(served, "?types=tick", last_id=last_id) as stream:
            assert kinds(await stream.take(1)) == ["reset"]


async def test_an_id_of_an_earlier_process_starts_with_a_reset(tmp_path: Path):
    async with serving(settings_in(tmp_path)) as served:
        emit(served, a_subject())
        async with event_stream(served) as stream:
            last_id = stream.last_id
    async with serving(settings_in(tmp_path)) as served:
        emit(served, a_subject())
        async with event_stream(served, last_id=last_id) as stream:
            assert kinds(await stream.take(1)) == ["reset"]


async def test_filters_select_matching_events_only(served_by_each: Served):
    served = served_by_each
    await served.post("/api/users/default/podcasts", {"name": "other"})
    (other,) = [
        podcast["id"]
        for podcast in (await served.get("/api/users/default/podcasts")).json["items"]
        if podcast["name"] == "other"
    ]
    first = await add(served, "http://127.0.0.1:1/a")
    second = await add(served, "http://127.0.0.1:1/b")
    third = await add(served, "http://127.0.0.1:1/c", f"/api/users/default/podcasts/{other}")
    subjects = [await served.app.store.sources.subject(id_) for id_ in (first, second, third)]
    async with (
        event_stream(served, f"?podcast={other}") as of_podcast,
        event_stream(served, f"?source={first}") as of_source,
        event_stream(served, "?types=tick,%20source.recovered") as of_types,
        event_stream(served, f"?source={second}&types=tick,source.recovered") as of_both,
        event_stream(served, f"?source={second}&podcast={other}") as of_none,
    ):
        for subject in subjects:
            assert subject is not None
            emit(served, subject)
            emit(served, subject, EventKind.SOURCE_RECOVERED)
        await served.service.tick()
        assert [t.data["sourceId"] for t in await of_podcast.take(2)] == [third, third]
        assert kinds(await of_source.take(2)) == ["poll.started", "source.recovered"]
        assert kinds(await of_types.take(4)) == ["source.recovered"] * 3 + ["tick"]
        assert [t.data["sourceId"] for t in await of_both.take(1)] == [second]
        served.api.state.event_log.close()
        for stream in (of_podcast, of_source, of_types, of_both, of_none):
            assert await stream.rest() == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("types=polls", "types"),
        ("types=", "types"),
        ("types=tick,", "types"),
        ("kinds=tick", "kinds"),
        (f"lastEventId={'x' * 300}", "lastEventId"),
        ("source=%00", "source"),
    ],
)
async def test_unknown_filters_are_refused_by_name(served: Served, query: str, field: str):
    answer = await served.get(f"/api/events?{query}")
    assert (answer.status, answer.json["errors"][0]["field"]) == (422, field)


async def test_u2_foreign_and_unknown_ids_both_get_404(served_by_each: Served):
    served = served_by_each
    place = await new_sources_path(served, "Ada")
    bob, admin = await served.person("Bob"), await served.admin()
    served.token = admin
    source_id = await add(served, "http://127.0.0.1:1/a", place)
    podcast_id = (await served.get(place)).json["id"]
    for name, foreign in (("source", source_id), ("podcast", podcast_id), ("podcast", "Ada")):
        theirs = await served.get(f"/api/events?{name}={foreign}", token=bob)
        unknown = await served.get(f"/api/events?{name}=nobody", token=bob)
        assert (theirs.status, unknown.status) == (404, 404)
        assert theirs.json["detail"].replace(foreign, "nobody") == unknown.json["detail"]
    assert (await served.get("/api/events?podcast=nobody")).status == 404
    assert (await served.get("/api/events?source=")).status == 404
    for query in (f"?source={source_id}", f"?podcast={podcast_id}"):
        async with event_stream(served, query, token=admin):
            pass


async def new_sources_path(served: Served, name: str) -> str:
    """The path of the sources of a new user."""
    await served.person(name)
    return f"/api/users/{name}/podcasts/{name}"


async def test_u2_users_do_not_see_events_of_others(served: Served):
    secrets = {name: await served.person(name) for name in ("Ada", "Bob")}
    admin = await served.admin()
    users = (await served.get("/api/users", token=admin)).json["items"]
    ids = {user["name"]: user["id"] for user in users}
    url = "https://anna:pw@example.org/feed?token=s3cret&page=2"
    async with event_stream(served, token=admin) as stream:
        last_id = stream.last_id
    for name in ("Ada", "Bob", "Ada"):
        emit(served, a_subject(user_id=ids[name], url=url))
    served.service.events.emit(EventKind.TICK, text="3")
    for name in ("Ada", "Bob"):
        async with event_stream(served, token=secrets[name], last_id=last_id) as stream:
            old = await stream.until("tick")
            for user_id in ids.values():
                emit(served, a_subject(user_id=user_id, url=url))
            served.service.events.emit(EventKind.TICK, text="3")
            new = await stream.until("tick")
        whose = [event.data["userId"] for event in old + new if event.kind != "tick"]
        assert whose == [ids[name]] * (3 if name == "Ada" else 2)
        assert {event.data["url"] for event in old if event.kind != "tick"} == {url}
    async with event_stream(served, token=admin, last_id=last_id) as stream:
        found = await stream.until("tick")
    assert [event.data["userId"] for event in found[:-1]] == [ids["Ada"], ids["Bob"], ids["Ada"]]
    shown = {event.data["url"] for event in found[:-1]}
    assert shown == {"https://example.org/feed?token=***&page=2"}


async def test_u2_events_need_a_token_once_tokens_exist(served: Served):
    await served.admin()
    assert (await served.get("/api/events")).status == 401
    assert (await served.get("/api/events", token="hw_wrong")).status == 401


async def test_line_breaks_in_feed_text_do_not_split_an_event(served: Served):
    title = 'one\ntwo\r\n\nevent: tick\u2028data: {"a": 1}\ud800'
    source = a_subject().source
    post = a_post(title=title)
    outcome = Outcome(source, source, OutcomeKind.STORED, served.app.clock.now(), (post,))
    async with event_stream(served) as stream:
        served.service.events.emit(EventKind.POST_CREATED, a_subject(), outcome=outcome)
        emit(served, a_subject())
        event, after = await stream.take(2)
    assert (event.data["title"], after.kind) == (title, "poll.started")


async def test_h2_a_long_replay_does_not_block_the_loop(served: Served):
    posts = tuple(a_post(str(n)) for n in range(9_000))
    source = a_subject().source
    outcome = Outcome(source, source, OutcomeKind.STORED, served.app.clock.now(), posts)
    async with event_stream(served) as stream:
        last_id = stream.last_id
    served.service.events.emit(EventKind.POST_CREATED, a_subject(), outcome=outcome)
    turns = 0

    async def count_iterations() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with event_stream(served, last_id=last_id) as stream:
        counting = asyncio.create_task(count_iterations())
        found = await stream.take(len(posts))
        counting.cancel()
    assert [event.data["id"] for event in found] == [post.id for post in posts]
    assert turns > 50
