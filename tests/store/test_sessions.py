"""Sessions: found by the hash of their cookie, for a while, and gone with their token (U1, U3)."""

from datetime import timedelta

from headwater.model import Token, User
from headwater.store import Store
from headwater.store.sessions import MOST_PER_TOKEN
from tests.store.pieces import DAY, NOW, rows

TOKEN = Token("t1", None, "laptop", NOW)


async def with_token(store: Store, token: Token = TOKEN) -> None:
    await store.tokens.add(token, f"hash of {token.id}")


async def test_a_session_leads_to_its_token_until_its_time_is_over(store: Store):
    await with_token(store)
    assert await store.sessions.add("cookie", "t1", now=NOW, expires_at=NOW + DAY)
    assert await store.sessions.token_of("cookie", NOW) == TOKEN
    assert await store.sessions.token_of("cookie", NOW + DAY - timedelta(seconds=1)) == TOKEN
    assert await store.sessions.token_of("cookie", NOW + DAY) is None
    assert await store.sessions.token_of("another", NOW) is None


async def test_u1_a_revoked_token_takes_its_sessions_with_it(store: Store):
    other = Token("t2", None, "phone", NOW)
    await with_token(store)
    await with_token(store, other)
    for number, token in enumerate((TOKEN, TOKEN, other)):
        await store.sessions.add(f"c{number}", token.id, now=NOW, expires_at=NOW + DAY)
    await store.tokens.remove("t1")
    found = [await store.sessions.token_of(f"c{number}", NOW) for number in range(3)]
    assert found == [None, None, other]
    assert await rows(store, "SELECT hash FROM sessions") == [("c2",)]


async def test_a_deleted_user_takes_their_sessions_along(store: Store):
    await store.people.add_user(User("u1", "Ann", NOW))
    await with_token(store, Token("t1", "u1", "hers", NOW))
    await store.sessions.add("cookie", "t1", now=NOW, expires_at=NOW + DAY)
    await store.people.remove_user("u1")
    assert await store.sessions.token_of("cookie", NOW) is None
    assert await rows(store, "SELECT * FROM sessions") == []


async def test_u1_there_is_no_session_for_a_token_that_was_revoked_meanwhile(store: Store):
    assert not await store.sessions.add("cookie", "gone", now=NOW, expires_at=NOW + DAY)
    assert await rows(store, "SELECT * FROM sessions") == []


async def test_a_removed_session_is_over_and_removing_it_again_does_no_harm(store: Store):
    await with_token(store)
    await store.sessions.add("cookie", "t1", now=NOW, expires_at=NOW + DAY)
    for _ in range(2):
        await store.sessions.remove("cookie")
        assert await store.sessions.token_of("cookie", NOW) is None


async def test_sessions_that_are_over_are_forgotten_by_the_next_login(store: Store):
    await with_token(store)
    await store.sessions.add("old", "t1", now=NOW, expires_at=NOW + DAY)
    await store.sessions.add("new", "t1", now=NOW + DAY, expires_at=NOW + 2 * DAY)
    assert await rows(store, "SELECT hash FROM sessions") == [("new",)]


async def test_u8_a_token_keeps_its_newest_sessions_alone(store: Store):
    await with_token(store)
    await with_token(store, Token("t2", None, "phone", NOW))
    await store.sessions.add("other", "t2", now=NOW, expires_at=NOW + DAY)
    for number in range(MOST_PER_TOKEN + 5):
        until = NOW + DAY + timedelta(seconds=number)
        await store.sessions.add(f"c{number}", "t1", now=NOW, expires_at=until)
    kept = {row[0] for row in await rows(store, "SELECT hash FROM sessions")}
    assert kept == {"other"} | {f"c{number}" for number in range(5, MOST_PER_TOKEN + 5)}
