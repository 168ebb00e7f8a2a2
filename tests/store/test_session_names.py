"""Sessions of PostgreSQL name the program that opened them."""

from collections.abc import Callable

import pytest

from headwater.store import open_database

NAME = "SELECT current_setting('application_name')"


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("in_url", "name"), [("", "headwater serve"), ("mine", "mine")], ids=["ours", "of the URL"]
)
async def test_a_session_has_the_name_of_the_program_unless_the_url_has_one(
    new_postgres: Callable[[], str], in_url: str, name: str
):
    url = new_postgres()
    if in_url:
        url += f"{'&' if '?' in url else '?'}application_name={in_url}"
    database = open_database(url, "headwater serve")
    assert await database.fetch(NAME) == [(name,)]
    assert await database.write(lambda session: session.fetch(NAME)) == [(name,)]
    await database.close()
