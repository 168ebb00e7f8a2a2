"""Tokens: found by their hash only, revoked at once, deleted with their user (U1)."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from headwater.errors import Forbidden, NotFound, UsageError
from headwater.model import Token, TokenScope, User
from headwater.operations.tokens import add_token, revoke_token, token_with
from headwater.store import Store, open_database
from headwater.store.tokens import MAX_TOKENS_PER_USER
from tests.store.store_data import NOW, StoreClock, rows

ANN = User("u1", "Ann", NOW)


async def test_a_token_is_found_by_its_hash_and_listed_oldest_first(store: Store):
    assert not await store.tokens.exist()
    first, second = (
        Token("2", None, "first", NOW, TokenScope.ADMIN),
        Token("3", "default", "second", NOW, TokenScope.USER),
    )
    await store.tokens.add(second, "hash 2")
    await store.tokens.add(first, "hash 1")
    assert await store.tokens.exist()
    assert await store.tokens.all() == [first, second]
    assert await store.tokens.with_hash("hash 1") == (first, "hash 1")
    assert await store.tokens.with_hash("hash 3") is None


async def test_u1_a_secret_has_many_random_bits_and_only_its_hash_is_stored(store: Store):
    made = [await add_token(store, None, f"token {n}", NOW) for n in range(20)]
    secrets = {one.secret for one in made}
    assert len(secrets) == 20
    assert all(len(secret) >= 3 + 43 for secret in secrets)  # 256 bits
    stored = repr(await rows(store, "SELECT * FROM tokens"))
    assert not [secret for secret in secrets if secret in stored or secret[3:] in stored]


async def test_u1_a_token_is_valid_until_it_is_revoked(store: Store):
    made = await add_token(store, None, "laptop", NOW)
    assert await token_with(store, made.secret, NOW) == made.token
    for wrong in ("", "hw_", made.secret[:-1], made.secret + "a", made.secret.lower(), "x" * 9999):
        assert await token_with(store, wrong, NOW) is None
    assert await revoke_token(store, "laptop") == made.token
    assert await token_with(store, made.secret, NOW) is None
    assert await store.tokens.all() == []


async def test_u1_a_token_is_valid_until_it_expires(store: Store):
    end = NOW + timedelta(days=1)
    made = await add_token(store, None, "laptop", NOW, expires_at=end)
    assert await token_with(store, made.secret, end - timedelta(milliseconds=1)) == made.token
    assert await token_with(store, made.secret, end) is None
    assert await store.tokens.exist()  # it does not open loopback again
    with pytest.raises(UsageError, match="in the future"):
        await add_token(store, None, "old", NOW, expires_at=NOW)


async def test_u1_a_use_is_stored_once_a_minute(store: Store):
    made = await add_token(store, None, "laptop", NOW)

    async def used(seconds: float) -> datetime | None:
        (token,) = await store.tokens.all()
        store.token_uses.note(token, NOW + timedelta(seconds=seconds))
        await store.token_uses.flush()
        return (await store.tokens.all())[0].last_used_at

    assert made.token.last_used_at is None
    assert await used(0) == NOW
    assert await used(59) == NOW
    assert await used(60) == NOW + timedelta(seconds=60)
    assert await used(1) == NOW + timedelta(seconds=60)
    assert await used(0) == NOW  # the clock was set back
    assert await used(60) == NOW + timedelta(seconds=60)
    # a use that another process has stored meanwhile
    store.token_uses.note(made.token, NOW + timedelta(seconds=90))
    await store.token_uses.flush()
    assert (await store.tokens.all())[0].last_used_at == NOW + timedelta(seconds=60)


async def test_u8_a_user_has_a_limited_number_of_tokens(store: Store):
    await store.accounts.add_user(ANN)
    made = [await add_token(store, ANN, f"{n}", NOW) for n in range(MAX_TOKENS_PER_USER - 1)]
    at_once = (add_token(store, ANN, f"last {n}", NOW) for n in range(2))
    results = await asyncio.gather(*at_once, return_exceptions=True)
    assert [type(result) for result in results].count(UsageError) == 1
    assert len(await store.tokens.all()) == MAX_TOKENS_PER_USER
    await add_token(store, None, "admin", NOW)  # administrators' tokens have no limit
    await store.tokens.remove(made[0].token.id)
    await add_token(store, ANN, "another", NOW)


async def test_u1_uses_are_stored_when_the_database_is_closed(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'test.db'}"
    async with Store(open_database(url), StoreClock()) as store:
        await store.prepare()
        store.token_uses.note((await add_token(store, None, "laptop", NOW)).token, NOW)
    async with Store(open_database(url), StoreClock()) as store:
        assert [token.last_used_at for token in await store.tokens.all()] == [NOW]


@pytest.mark.parametrize(
    ("scope", "of_user"),
    [(TokenScope.USER, False), (TokenScope.ADMIN, True), (TokenScope.METRICS, True)],
)
async def test_u1_a_scope_decides_whether_a_token_has_a_user(
    store: Store, scope: TokenScope, of_user: bool
):
    with pytest.raises(UsageError) as raised:
        await add_token(
            store, User("default", "default", NOW) if of_user else None, "x", NOW, scope=scope
        )
    assert raised.value.field == "user"


async def test_u1_a_token_creates_none_that_permits_more_or_outlives_it(store: Store):
    day, ann = timedelta(days=1), User("default", "default", NOW)
    hers = (await add_token(store, ann, "hers", NOW, expires_at=NOW + day)).token
    made = (await add_token(store, ann, "child", NOW, scope=TokenScope.READ, creator=hers)).token
    assert (made.scope, made.expires_at) == (TokenScope.READ, NOW + day)
    with pytest.raises(UsageError, match="expire after"):
        await add_token(store, ann, "later", NOW, expires_at=NOW + 2 * day, creator=hers)
    for scope in (TokenScope.ADMIN, TokenScope.METRICS):
        with pytest.raises(Forbidden):
            await add_token(store, None, "more", NOW, scope=scope, creator=hers)
    assert len(await store.tokens.all()) == 2


async def test_a_token_is_revoked_by_its_id_an_id_prefix_or_its_name(store: Store):
    for number in range(3):
        token = (await add_token(store, None, "laptop", NOW)).token
        await revoke_token(store, (token.id, token.id[:8], token.name)[number])
    for wanted in ("laptop", "", "0"):
        with pytest.raises(NotFound, match="headwater tokens"):
            await revoke_token(store, wanted)


async def test_an_ambiguous_name_revokes_no_token(store: Store):
    made = [await add_token(store, None, "laptop", NOW) for _ in range(2)]
    with pytest.raises(UsageError, match="matches 2 tokens"):
        await revoke_token(store, "laptop")
    await revoke_token(store, made[0].token.id)
    assert await store.tokens.all() == [made[1].token]


async def test_a_token_that_was_revoked_is_not_found(store: Store):
    with pytest.raises(NotFound):
        await store.tokens.remove("0")


async def test_deleting_a_user_deletes_their_tokens(store: Store):
    await store.accounts.add_user(ANN)
    made = await add_token(store, ANN, "phone", NOW)
    await store.accounts.remove_user(ANN.id)
    assert await token_with(store, made.secret, NOW) is None


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 201, "a\x1b[31m"])
async def test_a_token_has_a_name_of_one_line(store: Store, name: str):
    with pytest.raises(UsageError):
        await add_token(store, None, name, NOW)
