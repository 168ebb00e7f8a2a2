"""Types of problem documents are explained, and names in use are conflicts."""

import re
from pathlib import Path
from typing import Any

import pytest

from headwater.api.problem_types import ProblemType, type_for
from headwater.errors import DuplicateKey
from tests.api.conftest import Served, serving, settings_in

PAGE = Path(__file__).resolve().parents[2] / "docs" / "problems.md"


def test_every_type_of_problem_has_its_section_in_the_docs():
    _, *sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    documented = {}
    for section in sections:
        name, _, text = section.partition("\n")
        documented[name] = " ".join(text.split())
    assert set(documented) == set(ProblemType)
    for kind in ProblemType:
        statuses = " or ".join(map(str, kind.text.statuses))
        expected = f"{kind.text.title}, status {statuses}. {kind.text.meaning} {kind.text.remedy}"
        assert documented[kind] == expected


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 408, 409, 413, 422, 429, 500, 503])
def test_the_usual_type_of_a_status_lists_that_status(status: int):
    assert status in type_for(status).text.statuses


async def test_every_type_of_a_problem_is_the_path_of_a_page(served: Served):
    token = await served.admin()  # the pages need none
    missing = await served.get("/api/users/nobody", token=token)
    assert (missing.json["type"], missing.json["title"]) == ("/api/problems/not-found", "Not found")
    for kind in ProblemType:
        page = await served.get(kind.uri)
        assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert f"<h1>{kind.text.title}</h1>" in page.body.decode()
    assert (await served.get("/api/problems/no-such", token=token)).status == 404


async def test_names_in_use_are_conflicts(served_by_each: Served):
    served = served_by_each
    podcasts = "/api/users/default/podcasts"
    assert (await served.post("/api/users", {"name": "ann"})).status == 201
    assert (await served.post(podcasts, {"name": "morning"})).status == 201
    taken: list[tuple[str, str, Any]] = [
        ("POST", "/api/users", {"name": "ann"}),
        ("PUT", "/api/users/default", {"name": "ann"}),
        ("POST", podcasts, {"name": "morning"}),
        ("PUT", f"{podcasts}/default", {"name": "morning"}),
    ]
    for method, path, body in taken:
        answer = await served.call(method, path, body)
        found = answer.json
        assert (answer.status, found["type"]) == (409, "/api/problems/already-exists"), path
        assert [one["field"] for one in found["errors"]] == ["name"]


@pytest.mark.postgres
async def test_a_name_that_another_process_takes_at_the_same_time_is_a_conflict(
    tmp_path: Path, migrated_postgres_url: str
):
    # SQLite has one writer: nothing happens between the check and the insert
    settings = settings_in(tmp_path, **{"app.database-url": migrated_postgres_url})
    row = {"id": "other", "name": "default", "created_at": 0}
    async with serving(settings) as served:
        database = served.app.store.database
        with pytest.raises(DuplicateKey) as caught:
            await database.write(lambda session: session.insert_rows("users", [row]))

        async def race() -> None:
            raise caught.value

        served.api.add_api_route("/api/race", race)
        answer = await served.get("/api/race")
    assert (answer.status, answer.json["type"]) == (409, "/api/problems/already-exists")
    assert "default" not in answer.json["detail"]  # as the database words it
