"""Notices: where a user gets messages about incidents, and test messages (Y3)."""

from typing import Annotated

from fastapi import Depends

from headwater.api.dependencies import CurrentApp, CurrentCaller, OwnUser, refuse_body
from headwater.api.openapi import body_example, documented_router
from headwater.api.schemas.notices import EXAMPLE_NOTICES, NoticesIn, NoticesOut
from headwater.operations.notices import notices_of, send_tests, set_notices

routes = documented_router("/api/users/{u}/notices", "incidents")


@routes.get("")
async def get_notices(app: CurrentApp, user: OwnUser) -> NoticesOut:
    """Get the channels that notify a user of incidents, with the newest message to each."""
    return NoticesOut.of(await notices_of(app.store, user))


@routes.put("")
async def replace_notices(
    app: CurrentApp, user: OwnUser, body: Annotated[NoticesIn, body_example(EXAMPLE_NOTICES)]
) -> NoticesOut:
    """Replace the channels that notify a user of incidents.

    Each channel gets a message when an incident begins and one when it ends. A user receives
    their own sources, `default` also about problems of the whole service.
    """
    allowed = app.settings.fetch.allow_private_networks
    shown = await set_notices(app.store, user, body.choices, app.clock, allowed=allowed)
    return NoticesOut.of(shown)


@routes.post("/test", dependencies=[Depends(refuse_body)])
async def test_channels(app: CurrentApp, caller: CurrentCaller, user: OwnUser) -> NoticesOut:
    """Send a test message to each channel; `last` of each has the result.

    Other messages are tried again until they are accepted; a test is sent once.
    """
    app.visit_limits.check_test(caller.user_id)
    return NoticesOut.of(await send_tests(app.store, app.notifier(), user, app.clock))
