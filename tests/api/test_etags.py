"""ETags of sources and podcasts: `If-Match` prevents lost updates, and polls change no ETag."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from headwater.model import SourceType, Validators
from headwater.operations.etags import etag_of, matching
from headwater.source_settings import SETTINGS
from tests.api.conftest import DEFAULT, Answer, Served
from tests.factories import NOW, a_source
from tests.system.conftest import feed_site, web_of

PODCASTS = "/api/users/default/podcasts"
STALE = '"0123456789abcdef01234567"'


@pytest.fixture(params=["source", "podcast"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def created(served: Served, kind: str) -> tuple[str, Answer, dict[str, Any]]:
    """The path of a new object, the response, and the body of a PUT that changes it."""
    if kind == "source":
        body: dict[str, Any] = {"type": "rss", "url": "https://example.org/feed"}
        made = await served.post(f"{DEFAULT}/sources", body)
        return f"{DEFAULT}/sources/{made.json['id']}", made, body | {"label": "changed"}
    made = await served.post(PODCASTS, {"name": "morning"})
    body = {"name": "morning", "maxArticleAgeDays": 3}
    return f"{PODCASTS}/{made.json['id']}", made, body


async def test_every_response_with_one_object_has_its_etag(served_by_each: Served, kind: str):
    served = served_by_each
    path, made, body = await created(served, kind)
    shown = await served.get(path)
    assert made.headers["ETag"] == shown.headers["ETag"]
    changed = await served.put(path, body, headers={"If-Match": shown.headers["ETag"]})
    assert changed.status == 200
    assert changed.headers["ETag"] != shown.headers["ETag"]
    assert (await served.get(path)).headers["ETag"] == changed.headers["ETag"]


async def test_an_etag_that_does_not_match_is_412_and_changes_nothing(
    served_by_each: Served, kind: str
):
    served = served_by_each
    path, made, body = await created(served, kind)
    calls = [("PUT", body), ("DELETE", None)]
    calls += [("PATCH", {"label": "changed"})] if kind == "source" else []
    for method, sent in calls:
        answer = await served.call(method, path, sent, headers={"If-Match": STALE})
        assert (answer.status, answer.json["type"]) == (412, "/api/problems/outdated"), method
    assert (await served.get(path)).headers["ETag"] == made.headers["ETag"]


async def test_an_etag_that_matches_permits_the_deletion(served_by_each: Served, kind: str):
    served = served_by_each
    path, made, _ = await created(served, kind)
    answer = await served.delete(path, headers={"If-Match": made.headers["ETag"]})
    assert answer.status == 204
    gone = await served.delete(path, headers={"If-Match": made.headers["ETag"]})
    assert gone.status == 404


async def test_of_concurrent_edits_of_one_version_only_one_succeeds(
    served_by_each: Served, kind: str
):
    served = served_by_each
    path, made, body = await created(served, kind)
    name = "label" if kind == "source" else "name"
    headers = {"If-Match": made.headers["ETag"]}
    edits = [served.put(path, body | {name: f"edit {n}"}, headers=headers) for n in range(8)]
    answers = await asyncio.gather(*edits)
    assert sorted(answer.status for answer in answers) == [200] + [412] * 7
    (stored,) = (answer.json[name] for answer in answers if answer.status == 200)
    assert (await served.get(path)).json[name] == stored


async def test_an_edit_and_a_deletion_of_one_version_do_not_both_succeed(
    served_by_each: Served, kind: str
):
    served = served_by_each
    for _ in range(5):
        path, made, body = await created(served, kind)
        headers = {"If-Match": made.headers["ETag"]}
        edited, deleted = await asyncio.gather(
            served.put(path, body, headers=headers), served.delete(path, headers=headers)
        )
        assert (edited.status, deleted.status) in ((200, 412), (404, 204)), "a lost update"
        await served.delete(path)


async def test_a_podcast_with_sources_is_deleted_only_if_its_etag_matches(served_by_each: Served):
    served = served_by_each
    path, made, _ = await created(served, "podcast")
    await served.post(f"{path}/sources", {"type": "rss", "url": "https://example.org/feed"})
    assert (await served.delete(path, headers={"If-Match": STALE})).status == 412
    assert len((await served.get(f"{path}/sources")).json["items"]) == 1
    headers = {"If-Match": made.headers["ETag"]}
    assert (await served.delete(path, headers=headers)).status == 204


async def test_a_poll_does_not_change_the_etag(served_by_each: Served):
    served = served_by_each
    async with web_of(site=feed_site()) as web:
        made = await served.post(f"{DEFAULT}/sources", {"url": web.url("site")})
        path = f"{DEFAULT}/sources/{made.json['id']}"
        assert (await served.post(f"{path}/poll")).status == 200
    after = await served.get(path)
    assert after.json["lastPolled"] is not None
    headers = {"If-Match": made.headers["ETag"]}
    assert after.headers["ETag"] == made.headers["ETag"]
    assert (await served.patch(path, {"label": "new"}, headers=headers)).status == 200


async def test_a_conditional_get_returns_the_current_state(served: Served, kind: str):
    path, made, _ = await created(served, kind)
    answer = await served.get(path, headers={"If-None-Match": made.headers["ETag"]})
    assert answer.status == 200  # polls may have changed what the ETag does not cover


def test_every_setting_is_part_of_the_etag():
    source = a_source(url="https://example.org/feed")
    for name, setting in SETTINGS.items():
        value: Any = getattr(source, name)
        if name == "type":
            other: Any = SourceType.WEBSITE
        elif setting.kind is bool:
            other = not value
        elif setting.kind is int:
            other = (value or 0) + 1
        elif setting.kind is str:
            other = f"{value or ''}x"
        else:
            continue  # an enumeration or a dataclass
        assert etag_of(replace(source, **{name: other})) != etag_of(source), name


def test_what_polls_change_is_not_part_of_the_etag():
    source = a_source()
    polled = replace(
        source,
        last_polled=NOW,
        consecutive_failures=3,
        last_error="HTTP 500",
        validators=Validators(etag="x"),
        generation=source.generation + 1,
    )
    assert etag_of(polled) == etag_of(source)
    disabled = replace(source, enabled=False, disabled_reason="Auto-disabled")
    assert etag_of(disabled) != etag_of(source)


def test_if_match_accepts_lists_weak_tags_and_any():
    source = a_source()
    tag = etag_of(source)
    for header in (None, "*", tag, f"W/{tag}", f'"other", {tag}', f"{STALE},{tag}"):
        assert matching(header, source) is source
