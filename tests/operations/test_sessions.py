"""Browser sessions: login, logout and odd cookies (U1, U3)."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from headwater.errors import Forbidden
from headwater.model import TokenScope
from headwater.operations.tokens import (
    SESSION_LIFETIME,
    add_token,
    log_in,
    log_out,
    revoke_token,
    token_in_session,
)
from headwater.store import Store, open_database
from tests.store.store_data import NOW, StoreClock, rows


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    database = open_database(f"sqlite:///{tmp_path / 'test.db'}")
    async with Store(database, StoreClock()) as opened:
        await opened.prepare()
        yield opened


async def test_a_valid_token_logs_in_for_a_limited_time(store: Store):
    made = await add_token(store, None, "laptop", NOW)
    cookie = await log_in(store, f"  {made.secret}\n", NOW)
    assert cookie is not None
    assert await token_in_session(store, cookie, NOW) == made.token
    assert await token_in_session(store, cookie, NOW + SESSION_LIFETIME) is None


async def test_u1_a_cookie_has_many_random_bits_and_only_its_hash_is_stored(store: Store):
    made = await add_token(store, None, "laptop", NOW)
    made_cookies = [await log_in(store, made.secret, NOW) for _ in range(20)]
    cookies = {cookie for cookie in made_cookies if cookie is not None}
    assert len(cookies) == 20
    assert all(len(cookie) >= 43 for cookie in cookies)  # 256 bits
    stored = repr(await rows(store, "SELECT * FROM sessions"))
    assert not [cookie for cookie in cookies if cookie in stored]


@pytest.mark.parametrize("secret", ["", "hw_", "wrong", "\ud800", "x" * 100_000])
async def test_a_wrong_token_does_not_log_in(store: Store, secret: str):
    await add_token(store, None, "laptop", NOW)
    assert await log_in(store, secret, NOW) is None
    assert await rows(store, "SELECT * FROM sessions") == []


async def test_u1_a_session_ends_with_its_token(store: Store):
    made = await add_token(store, None, "laptop", NOW)
    cookie = await log_in(store, made.secret, NOW)
    assert cookie is not None
    await revoke_token(store, made.token.id)
    assert await token_in_session(store, cookie, NOW) is None
    assert await log_in(store, made.secret, NOW) is None


async def test_u1_a_session_ends_when_its_token_expires(store: Store):
    end = NOW + timedelta(hours=1)
    made = await add_token(store, None, "laptop", NOW, expires_at=end)
    cookie = await log_in(store, made.secret, NOW)
    assert cookie is not None
    assert await token_in_session(store, cookie, end - timedelta(seconds=1)) == made.token
    assert await token_in_session(store, cookie, end) is None
    assert await log_in(store, made.secret, end) is None


async def test_u1_a_metrics_token_does_not_log_in(store: Store):
    made = await add_token(store, None, "prometheus", NOW, scope=TokenScope.METRICS)
    with pytest.raises(Forbidden):
        await log_in(store, made.secret, NOW)
    assert await rows(store, "SELECT * FROM sessions") == []


async def test_logging_out_ends_one_session(store: Store):
    made = await add_token(store, None, "laptop", NOW)
    first, second = await log_in(store, made.secret, NOW), await log_in(store, made.secret, NOW)
    assert first is not None
    assert second is not None
    await log_out(store, first)
    await log_out(store, "nobody's")
    assert await token_in_session(store, first, NOW) is None
    assert await token_in_session(store, second, NOW) == made.token


async def test_a_browser_that_logs_in_again_has_one_session(store: Store):
    made = await add_token(store, None, "laptop", NOW)
    first = await log_in(store, made.secret, NOW)
    assert first is not None
    second = await log_in(store, made.secret, NOW, instead_of=first)
    assert second is not None
    assert await token_in_session(store, first, NOW) is None
    assert await log_in(store, "wrong", NOW, instead_of=second) is None
    assert await token_in_session(store, second, NOW) == made.token


@pytest.mark.parametrize("cookie", ["", "x", "x" * 101, "\ud800", "\x00"])
async def test_an_odd_cookie_is_no_session(store: Store, cookie: str):
    assert await token_in_session(store, cookie, NOW) is None
    await log_out(store, cookie)
