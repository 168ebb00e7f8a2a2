"""Users and their API keys."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi import Path as PathParameter

from headwater.api.callers import caller_of, need_admin
from headwater.api.inputs import ApiKeyIn, UserIn
from headwater.api.pages import (
    Cursor,
    Page,
    id_in,
    limit_up_to,
    page_of,
    place_of,
    position_in,
)
from headwater.api.schemas import KeyOut, UserOut
from headwater.api.scope import UserName, the_user
from headwater.app import App
from headwater.operations.people import (
    add_user,
    providers_of,
    remove_key,
    remove_user,
    rename_user,
    set_key,
)

Provider = Annotated[str, PathParameter(max_length=50, description="The provider, such as `x`.")]


def user_routes(app: App) -> APIRouter:
    """`/api/users` and what hangs directly on a user."""
    routes = APIRouter(prefix="/api/users", tags=["users"])
    store = app.store
    usual = limit_up_to(app.settings.limits.max_page_size)

    @routes.get("")
    async def list_users(
        request: Request,
        limit: int = usual,
        cursor: Cursor = None,
    ) -> Page[UserOut]:
        """List the users that the caller may know of, oldest first."""
        after = position_in(cursor, int, str)
        only = caller_of(request).user_id
        found = await store.people.users_page(limit + 1, after=after, only=only)
        return page_of(found, limit, UserOut.of, lambda user: place_of(user.created_at, user.id))

    @routes.post("", status_code=201, dependencies=[Depends(need_admin)])
    async def create_user(body: UserIn, response: Response) -> UserOut:
        """Add a user."""
        user = await add_user(store, body.name, app.clock.now())
        response.headers["Location"] = f"/api/users/{user.id}"
        return UserOut.of(user)

    @routes.get("/{u}")
    async def get_user(request: Request, u: UserName) -> UserOut:
        """Show a user."""
        return UserOut.of(await the_user(store, request, u))

    @routes.put("/{u}")
    async def change_user(request: Request, u: UserName, body: UserIn) -> UserOut:
        """Rename a user."""
        user = await the_user(store, request, u)
        return UserOut.of(await rename_user(store, user, body.name))

    @routes.delete("/{u}", status_code=204, dependencies=[Depends(need_admin)])
    async def delete_user(request: Request, u: UserName) -> None:
        """Delete a user with everything that is theirs."""
        await remove_user(store, await the_user(store, request, u))

    @routes.get("/{u}/api-keys")
    async def list_keys(
        request: Request, u: UserName, limit: int = usual, cursor: Cursor = None
    ) -> Page[KeyOut]:
        """Say for which providers a user has stored a key; no key is ever shown."""
        after = id_in(cursor) or ""
        user = await the_user(store, request, u)
        found = await providers_of(store, user, after=after)
        return page_of(found, limit, lambda name: KeyOut(provider=name), lambda name: (name,))

    @routes.put("/{u}/api-keys/{provider}")
    async def put_key(request: Request, u: UserName, provider: Provider, body: ApiKeyIn) -> KeyOut:
        """Store a key, sealed, instead of an older one; sources that waited for it become due."""
        user = await the_user(store, request, u)
        now = app.clock.now()
        change = await set_key(store, app.vault, user, provider, body.api_key, now)
        return KeyOut(provider=change.provider, sources_requested=change.sources_requested)

    @routes.delete("/{u}/api-keys/{provider}", status_code=204)
    async def delete_key(request: Request, u: UserName, provider: Provider) -> None:
        """Forget a key."""
        user = await the_user(store, request, u)
        await remove_key(store, user, provider)

    return routes
