"""A proxy that shares sessions between clients is refused: locks belong to sessions (S10)."""

from collections.abc import Callable

import pytest

from headwater.clock import SystemClock
from headwater.errors import ConfigError
from headwater.store import Store, open_database
from headwater.store.postgres import refuse_transaction_pooling
from tests.store.pooling_proxy import pooling_proxy


@pytest.mark.parametrize(
    "pids",
    [
        [(7, 7)],  # both used the one idle server process
        [(7, 8), (8, 7)],  # they took turns
        [(7, 8), (9, 8)],
        [(7, 8), (7, 9)],
    ],
)
def test_s10_connections_that_change_or_share_their_server_process_are_refused(pids):
    with pytest.raises(ConfigError, match=r"app\.database-url leads to a proxy that shares"):
        refuse_transaction_pooling(pids)


def test_s10_a_proxy_in_session_mode_is_accepted():
    refuse_transaction_pooling([(7, 8), (7, 8)])


@pytest.mark.postgres
async def test_s10_a_direct_connection_is_accepted(new_postgres: Callable[[], str]):
    database = open_database(new_postgres())
    await database.refuse_shared_sessions()
    await database.close()


@pytest.mark.postgres
@pytest.mark.parametrize("sessions", [1, 2, 3])
async def test_s10_a_proxy_that_shares_sessions_is_refused(
    new_postgres: Callable[[], str], sessions: int
):
    async with pooling_proxy(new_postgres(), by_transaction=True, sessions=sessions) as url:
        store = Store(open_database(url), SystemClock())
        await store.schema()  # ordinary statements work
        with pytest.raises(ConfigError, match="shares sessions between clients"):
            await store.check()
        await store.close()


@pytest.mark.postgres
async def test_s10_a_proxy_with_a_session_for_each_client_is_accepted(
    new_postgres: Callable[[], str],
):
    async with (
        pooling_proxy(new_postgres(), by_transaction=False, sessions=8) as url,
        Store(open_database(url), SystemClock()) as store,
    ):
        await store.check()
