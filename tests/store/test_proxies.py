"""A proxy that shares sessions between clients is refused: locks belong to sessions (S10)."""

from collections.abc import Callable

import pytest

from headwater.errors import ConfigError
from headwater.store import open_database
from headwater.store.postgres import refuse_transaction_pooling


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
