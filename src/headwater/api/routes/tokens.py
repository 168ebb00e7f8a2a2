"""Access tokens: administrators manage all of them, users those for their own data."""

from typing import Annotated

from fastapi import Response

from headwater.api.dependencies import (
    CurrentApp,
    CurrentCaller,
    Page,
    owned_user,
    path_parameter,
)
from headwater.api.middleware.authentication import Caller
from headwater.api.openapi import Responses, body_example, created, documented_router
from headwater.api.schemas.inputs import TokenIn
from headwater.api.schemas.outputs import EXAMPLE_TOKEN_ID, NewTokenOut, TokenOut
from headwater.api.schemas.pagination import ListPage, page_of, position_in, position_of
from headwater.errors import NotFound
from headwater.model import TokenScope, User
from headwater.operations.tokens import add_token, remove_token
from headwater.operations.users_and_podcasts import DEFAULT
from headwater.store import Store
from headwater.store.tokens import ListedToken

TokenId = Annotated[str, path_parameter("A token's id.", EXAMPLE_TOKEN_ID)]
_PATH = "/api/tokens"
_CREATED: Responses = {
    **created("t", _PATH, "getToken", "deleteToken"),
    404: {"description": "The user does not exist, or is another one."},
}
_NEW = {"name": "dashboard of the studio", "scope": "read", "user": "default"}
routes = documented_router(_PATH, "tokens")


@routes.get("")
async def list_tokens(app: CurrentApp, caller: CurrentCaller, page: Page) -> ListPage[TokenOut]:
    """List the tokens for the data of the caller, oldest first; administrators see all."""
    after = position_in(page.cursor, int, str)
    found = await app.store.tokens.listed(only=caller.user_id, limit=page.limit + 1, after=after)
    return page_of(found, page.limit, TokenOut.of, lambda one: position_of(one.token))


@routes.post("", status_code=201, responses=_CREATED)
async def create_token(
    app: CurrentApp,
    caller: CurrentCaller,
    body: Annotated[TokenIn, body_example(_NEW)],
    response: Response,
) -> NewTokenOut:
    """Create a token; only this response has its secret.

    A user's token can create tokens with the scopes `user` and `read` for the same user. A
    token that is created with an expiring one does not outlive it. A user has at most 100 tokens.
    """
    made = await add_token(
        app.store,
        await _user_for(app.store, caller, body),
        body.name,
        app.clock.now(),
        scope=body.scope,
        expires_at=body.expires_at,
        creator=caller.token,
    )
    response.headers["Location"] = f"{_PATH}/{made.token.id}"
    response.headers["Cache-Control"] = "no-store"
    return NewTokenOut.of(await _listed(app.store, caller, made.token.id), made.secret)


@routes.get("/{t}")
async def get_token(app: CurrentApp, caller: CurrentCaller, t: TokenId) -> TokenOut:
    """Get a token, without its secret."""
    return TokenOut.of(await _listed(app.store, caller, t))


@routes.delete("/{t}", status_code=204)
async def delete_token(app: CurrentApp, caller: CurrentCaller, t: TokenId) -> None:
    """Revoke a token: it is refused from now on, and sessions started with it end."""
    await remove_token(app.store, (await _listed(app.store, caller, t)).token)


async def _user_for(store: Store, caller: Caller, body: TokenIn) -> User | None:
    """The user that a new token is for; None: all users."""
    name = body.user
    if name is None:
        name = caller.user_id or (DEFAULT if body.scope is TokenScope.USER else None)
        if body.scope in (TokenScope.ADMIN, TokenScope.METRICS):
            return None
    return None if name is None else await owned_user(store, caller, name)


async def _listed(store: Store, caller: Caller, token_id: str) -> ListedToken:
    found = await store.tokens.listed(only=caller.user_id, limit=1, token_id=token_id)
    if not found:
        raise NotFound(f"there is no token {token_id}")
    return found[0]
