"""Stored states of hosts, of which there may be millions."""

from headwater.model import HostState
from headwater.store import Store

_MANY = 45_000  # several pages
_ADD_MANY = f"""WITH RECURSIVE numbers (n) AS
    (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {_MANY})
    INSERT INTO hosts (lane) SELECT 'host-' || n FROM numbers"""


async def test_k8_the_states_of_very_many_hosts_are_all_read(store: Store):
    assert await store.hosts.all() == []
    await store.database.execute(_ADD_MANY)
    states = await store.hosts.all()
    assert len(states) == _MANY
    assert {state.lane for state in states} == {f"host-{n + 1}" for n in range(_MANY)}
    assert states[0] == HostState(states[0].lane)
