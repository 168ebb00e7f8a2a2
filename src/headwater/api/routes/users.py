"""Users and their API keys."""

from typing import Annotated

from fastapi import Depends, Request, Response

from headwater.api.dependencies import CurrentApp, CurrentCaller, OwnUser, Page, path_parameter
from headwater.api.middleware.authentication import caller_of, need_admin
from headwater.api.openapi import body_example, created, documented_router
from headwater.api.schemas.inputs import ApiKeyIn, UserIn
from headwater.api.schemas.outputs import KeyOut, UserOut
from headwater.api.schemas.pagination import ListPage, id_in, page_of, position_in, position_of
from headwater.operations.users_and_podcasts import (
    PROVIDERS,
    add_user,
    remove_key,
    remove_user,
    rename_user,
    set_key,
)

Provider = Annotated[
    str, path_parameter("The provider, such as `x`.", "x", most=50, enum=list(PROVIDERS))
]
_PATH = "/api/users"
_CREATED = created("u", _PATH, "getUser", "changeUser", "deleteUser")
routes = documented_router(_PATH, "users")


@routes.get("")
async def list_users(request: Request, app: CurrentApp, page: Page) -> ListPage[UserOut]:
    """List the users visible to the caller, oldest first."""
    after, only = position_in(page.cursor, int, str), caller_of(request).user_id
    found = await app.store.accounts.users(limit=page.limit + 1, after=after, only=only)
    return page_of(found, page.limit, UserOut.of, position_of)


@routes.post("", status_code=201, dependencies=[Depends(need_admin)], responses=_CREATED)
async def create_user(
    app: CurrentApp, body: Annotated[UserIn, body_example({"name": "ann"})], response: Response
) -> UserOut:
    """Add a user."""
    user = await add_user(app.store, body.name, app.clock.now())
    response.headers["Location"] = f"/api/users/{user.id}"
    return UserOut.of(user)


@routes.get("/{u}")
async def get_user(user: OwnUser) -> UserOut:
    """Get a user."""
    return UserOut.of(user)


@routes.put("/{u}", dependencies=[Depends(need_admin)], responses={409: {}})
async def change_user(
    app: CurrentApp, user: OwnUser, body: Annotated[UserIn, body_example({"name": "default"})]
) -> UserOut:
    """Rename a user.

    Only administrators may: a name that is in use would disclose that another user exists.
    """
    return UserOut.of(await rename_user(app.store, user, body.name))


@routes.delete("/{u}", status_code=204, dependencies=[Depends(need_admin)])
async def delete_user(app: CurrentApp, user: OwnUser) -> None:
    """Delete a user with everything that belongs to them."""
    await remove_user(app.store, user)


@routes.get("/{u}/api-keys")
async def list_keys(app: CurrentApp, user: OwnUser, page: Page) -> ListPage[KeyOut]:
    """List the providers for which a user has stored a key; keys are never returned."""
    after = id_in(page.cursor) or ""
    found = [name for name in await app.store.api_keys.providers(user.id) if name > after]
    return page_of(found, page.limit, lambda name: KeyOut(provider=name), lambda name: (name,))


@routes.put("/{u}/api-keys/{provider}")
async def put_key(
    app: CurrentApp,
    caller: CurrentCaller,
    user: OwnUser,
    provider: Provider,
    body: Annotated[ApiKeyIn, body_example({"apiKey": "AAAA-your-key"})],
) -> KeyOut:
    """Store or replace a key, encrypted; sources that lacked it become due.

    With a user's token, not those that became due by a key in the last 10 s.
    """
    now, key = app.clock.now(), body.api_key
    pollable = app.visit_limits.pollable_with_key_for(caller.user_id)
    stored = await set_key(app.store, app.vault, user, provider, key, now, pollable=pollable)
    return KeyOut.of(stored)


@routes.delete("/{u}/api-keys/{provider}", status_code=204)
async def delete_key(app: CurrentApp, user: OwnUser, provider: Provider) -> None:
    """Delete a key."""
    await remove_key(app.store, user, provider)
