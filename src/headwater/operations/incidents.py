"""Incidents as users see them, and the check without a running service (Y1, Y2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headwater.engine.incident_watch import planned_changes
from headwater.engine.service import Service
from headwater.model import Source
from headwater.rules.incidents import Incident, ServiceState, worst_first
from headwater.rules.policy import Policy
from headwater.store import Store
from headwater.store.incidents import IncidentPosition

_MOST_OPEN = 1000
_SOURCES_SHOWN = 3  # of each incident


async def incident_page(
    store: Store,
    service: Service,
    owner: str | None,
    *,
    limit: int,
    is_open: bool | None = None,
    after: IncidentPosition | None = None,
) -> Sequence[Incident]:
    """Incidents of a user, or all for administrators: open ones first, worst first (U2).

    Those that cannot be stored now come first.
    """
    found = await store.incidents.page(owner, limit=limit, is_open=is_open, after=after)
    if after is not None or is_open is False:
        return found
    return [*_unstored(service, owner, found), *found]


async def open_incidents(store: Store, service: Service, owner: str | None) -> list[Incident]:
    """The open incidents of a user, or all for administrators, worst first (Y2)."""
    found = await store.incidents.page(owner, limit=_MOST_OPEN, is_open=True)
    return worst_first([*_unstored(service, owner, found), *found])


def _unstored(service: Service, owner: str | None, stored: Sequence[Incident]) -> list[Incident]:
    ids = {incident.id for incident in stored}
    return [
        incident
        for incident in service.unstored_incidents
        if owner in (None, incident.user_id) and incident.id not in ids
    ]


@dataclass(frozen=True, slots=True)
class ShownIncident:
    """An incident with some of its sources."""

    incident: Incident
    sources: Sequence[Source]


async def with_sources(store: Store, incidents: Sequence[Incident]) -> list[ShownIncident]:
    """These incidents with their first sources, for links."""
    wanted = [id_ for incident in incidents for id_ in incident.source_ids[:_SOURCES_SHOWN]]
    known = await store.sources.known(wanted) if wanted else {}
    return [
        ShownIncident(one, [known[id_] for id_ in one.source_ids[:_SOURCES_SHOWN] if id_ in known])
        for one in incidents
    ]


async def checked_incidents(
    store: Store, policy: Policy, now: datetime, owner: str | None
) -> list[Incident]:
    """The open incidents, updated first: no service may be running.

    Whether this machine is offline and whether results wait is known to the service only.
    """
    changes = await planned_changes(store, policy, now, ServiceState())
    if changes:
        await store.incidents.apply(changes)
    return worst_first(await store.incidents.page(owner, limit=_MOST_OPEN, is_open=True))
