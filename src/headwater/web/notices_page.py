"""The notifications page of a user: channels, their last messages, and a test (Y3)."""

from urllib.parse import quote

from fastapi import APIRouter
from fastapi.responses import Response

from headwater.api.dependencies import owned_user
from headwater.api.middleware.authentication import caller_of
from headwater.errors import Forbidden, NotFound, UsageError
from headwater.model import User
from headwater.operations.notices import (
    add_channel,
    notices_of,
    remove_channel,
    send_tests,
    webhooks_for,
)
from headwater.rules.channels import DIGEST_HOUR, ChannelChoice, ChannelKind
from headwater.web.forms import fields_of, one
from headwater.web.rendering import AnyPage, DashboardPage, done

routes = APIRouter(prefix="/users/{u}/notices", include_in_schema=False)


@routes.get("")
async def show_notices(page: AnyPage, u: str) -> Response:
    """Show where a user gets messages about incidents, and the last results."""
    return await _shown(page, await _user(page, u))


@routes.post("")
async def save_channel(page: AnyPage, u: str) -> Response:
    """Add a channel, or change when it gets messages."""
    user = await _user(page, u)
    fields = await fields_of(page.request)
    allowed = page.app.settings.fetch.allow_private_networks
    given = {name: one(fields, name) for name in ("kind", "target", "when", "hour")}
    known = {channel.id: channel.target for channel in await page.store.channels.listed(user.id)}
    given["target"] = known.get(given["target"], given["target"])  # forms contain no secret
    try:
        choice = _choice(given)
        await add_channel(page.store, user, choice, page.app.clock, allowed=allowed)
    except (NotFound, Forbidden):
        raise
    except UsageError as error:
        return await _shown(page, user, given=given, error=error)
    return done(_path(user), "notices-saved")


@routes.post("/remove")
async def remove(page: AnyPage, u: str) -> Response:
    """Remove a channel."""
    user = await _user(page, u)
    fields = await fields_of(page.request)
    await remove_channel(page.store, user, one(fields, "target"), page.app.clock)
    return done(_path(user), "notices-removed")


@routes.post("/test")
async def test_channels(page: AnyPage, u: str) -> Response:
    """Send a test message to each channel."""
    user = await _user(page, u)
    page.app.visit_limits.check_test(page.caller_id)
    try:
        await send_tests(page.store, page.app.notifier(), user, page.app.clock)
    except UsageError as error:
        return await _shown(page, user, error=error)
    return done(_path(user), "notices-tested")


async def _user(page: DashboardPage, name: str) -> User:
    return await owned_user(page.store, caller_of(page.request), name)


def _path(user: User) -> str:
    return f"/users/{quote(user.id, safe='')}/notices"


def _choice(given: dict[str, str]) -> ChannelChoice:
    hour = given["hour"]
    if given["kind"] not in (*ChannelKind,) or given["when"] not in ("now", "digest"):
        raise UsageError("choose what is sent, and when", field="kind")
    if hour not in ("", *map(str, range(24))):
        raise UsageError("the hour is a number from 0 to 23", field="hour")
    is_digest = given["when"] == "digest"
    kind = ChannelKind(given["kind"])
    return ChannelChoice(kind, given["target"], is_digest, int(hour) if hour else None)


async def _shown(
    page: DashboardPage,
    user: User,
    *,
    given: dict[str, str] | None = None,
    error: UsageError | None = None,
) -> Response:
    return page.show(
        "notices.html",
        status=200 if error is None else 422,
        path=_path(user),
        owner=user,
        shown=await notices_of(page.store, user),
        webhooks={one.id: one for one in await webhooks_for(page.store, user)},
        podcast=next((one for one in page.context.podcasts if one.user_id == user.id), None),
        sends_mail=page.app.settings.mail.host is not None,
        usual_hour=DIGEST_HOUR,
        given=given or {},
        error=error,
    )
