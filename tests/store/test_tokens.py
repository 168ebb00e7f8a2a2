"""Tokens: found by their hash alone, revoked at once, gone with their user (U1)."""

import pytest

from headwater.errors import NotFound, UsageError
from headwater.model import Token, User
from headwater.operations.tokens import add_token, list_tokens, revoke_token, token_with
from headwater.store import Store
from tests.store.pieces import NOW, rows

ANN = User("u1", "Ann", NOW)


async def test_a_token_is_found_by_its_hash_and_listed_oldest_first(store: Store):
    assert not await store.tokens.exist()
    first, second = Token("2", None, "first", NOW), Token("3", "default", "second", NOW)
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


async def test_u1_a_token_opens_until_it_is_revoked(store: Store):
    made = await add_token(store, None, "laptop", NOW)
    assert await token_with(store, made.secret) == made.token
    for wrong in ("", "hw_", made.secret[:-1], made.secret + "a", made.secret.lower(), "x" * 9999):
        assert await token_with(store, wrong) is None
    assert await revoke_token(store, "laptop") == made.token
    assert await token_with(store, made.secret) is None
    assert await list_tokens(store) == []


async def test_a_token_is_revoked_by_its_id_the_beginning_of_it_or_its_name(store: Store):
    for number in range(3):
        token = (await add_token(store, None, "laptop", NOW)).token
        await revoke_token(store, (token.id, token.id[:8], token.name)[number])
    for wanted in ("laptop", "", "0"):
        with pytest.raises(NotFound, match="headwater tokens"):
            await revoke_token(store, wanted)


async def test_a_name_that_fits_two_tokens_revokes_neither(store: Store):
    made = [await add_token(store, None, "laptop", NOW) for _ in range(2)]
    with pytest.raises(UsageError, match="fits 2 tokens"):
        await revoke_token(store, "laptop")
    await revoke_token(store, made[0].token.id)
    assert await list_tokens(store) == [made[1].token]


async def test_a_token_that_is_gone_already_is_not_found(store: Store):
    with pytest.raises(NotFound):
        await store.tokens.remove("0")


async def test_a_user_takes_their_tokens_along(store: Store):
    await store.people.add_user(ANN)
    made = await add_token(store, ANN, "phone", NOW)
    await store.people.remove_user(ANN.id)
    assert await token_with(store, made.secret) is None


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 201, "a\x1b[31m"])
async def test_a_token_has_a_name_of_one_line(store: Store, name: str):
    with pytest.raises(UsageError):
        await add_token(store, None, name, NOW)
