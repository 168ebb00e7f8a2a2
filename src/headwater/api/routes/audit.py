"""The audit log."""

from typing import Annotated

from fastapi import Depends, Query

from headwater.api.dependencies import CurrentApp, Page
from headwater.api.middleware.authentication import need_admin
from headwater.api.openapi import documented_router
from headwater.api.schemas.inputs import NullOmitted, TimeText
from headwater.api.schemas.outputs import AuditEntryOut
from headwater.api.schemas.pagination import ListPage, page_of, position_in

Since = Annotated[TimeText | None, NullOmitted(), Query(description="Only entries from then on.")]
routes = documented_router("/api/audit", "audit")


@routes.get("", dependencies=[Depends(need_admin)])
async def list_audit_entries(
    app: CurrentApp, page: Page, since: Since = None
) -> ListPage[AuditEntryOut]:
    """List what people have changed and logins, newest first; for administrators.

    Entries are kept for 90 days.
    """
    (before,) = position_in(page.cursor, int) or (None,)
    found = await app.store.audit.newest(limit=page.limit + 1, since=since, before=before)
    return page_of(found, page.limit, AuditEntryOut.of, lambda entry: (entry.id,))
