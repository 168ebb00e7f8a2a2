"""Sessions: found by cookie hash, limited in time, deleted with their token (U1, U3)."""

from datetime import timedelta

from headwater.model import Token, TokenScope, User
from headwater.store import Store
from headwater.store.tokens import MAX_SESSIONS_PER_TOKEN
from tests.store.store_data import DAY, NOW, rows

TOKEN = Token("t1", None, "laptop", NOW, TokenScope.ADMIN)


async def with_token(store: Store, token: Token = TOKEN) -> None:
    await store.tokens.add(token, f"hash of {token.id}")


async def test_a_session_has_its_token_until_it_expires(store: Store):
    await with_token(store)
    assert await store.sessions.add("cookie", "t1", now=NOW, expires_at=NOW + DAY)
    assert await store.sessions.token_of("cookie", NOW) == TOKEN
    assert await store.sessions.token_of("cookie", NOW + DAY - timedelta(seconds=1)) == TOKEN
    assert await store.sessions.token_of("cookie", NOW + DAY) is None
    assert await store.sessions.token_of("another", NOW) is None


async def test_u1_revoking_a_token_deletes_its_sessions(store: Store):
    other = Token("t2", None, "phone", NOW, TokenScope.ADMIN)
    await with_token(store)
    await with_token(store, other)
    for number, token in enumerate((TOKEN, TOKEN, other)):
        await store.sessions.add(f"c{number}", token.id, now=NOW, expires_at=NOW + DAY)
    await store.tokens.remove("t1")
    found = [await store.sessions.token_of(f"c{number}", NOW) for number in range(3)]
    assert found == [None, None, other]
    assert await rows(store, "SELECT hash FROM sessions") == [("c2",)]


async def test_deleting_a_user_deletes_their_sessions(store: Store):
    await store.accounts.add_user(User("u1", "Ann", NOW))
    await with_token(store, Token("t1", "u1", "hers", NOW, TokenScope.USER))
    await store.sessions.add("cookie", "t1", now=NOW, expires_at=NOW + DAY)
    await store.accounts.remove_user("u1")
    assert await store.sessions.token_of("cookie", NOW) is None
    assert await rows(store, "SELECT * FROM sessions") == []


async def test_u1_a_token_revoked_at_the_same_time_gets_no_session(store: Store):
    assert not await store.sessions.add("cookie", "gone", now=NOW, expires_at=NOW + DAY)
    assert await rows(store, "SELECT * FROM sessions") == []


async def test_a_deleted_session_is_invalid_and_can_be_deleted_again(store: Store):
    await with_token(store)
    await store.sessions.add("cookie", "t1", now=NOW, expires_at=NOW + DAY)
    for _ in range(2):
        await store.sessions.remove("cookie")
        assert await store.sessions.token_of("cookie", NOW) is None


async def test_expired_sessions_are_deleted_by_the_next_login(store: Store):
    await with_token(store)
    await store.sessions.add("old", "t1", now=NOW, expires_at=NOW + DAY)
    await store.sessions.add("new", "t1", now=NOW + DAY, expires_at=NOW + 2 * DAY)
    assert await rows(store, "SELECT hash FROM sessions") == [("new",)]


async def test_u8_a_token_keeps_its_newest_sessions_only(store: Store):
    await with_token(store)
    await with_token(store, Token("t2", None, "phone", NOW, TokenScope.ADMIN))
    await store.sessions.add("other", "t2", now=NOW, expires_at=NOW + DAY)
    for number in range(MAX_SESSIONS_PER_TOKEN + 5):
        until = NOW + DAY + timedelta(seconds=number)
        await store.sessions.add(f"c{number}", "t1", now=NOW, expires_at=until)
    kept = {row[0] for row in await rows(store, "SELECT hash FROM sessions")}
    assert kept == {"other"} | {f"c{number}" for number in range(5, MAX_SESSIONS_PER_TOKEN + 5)}
