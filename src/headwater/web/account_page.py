"""The page of accounts: somebody's podcasts and keys, and for administrators users and tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import Response

from headwater.api.callers import cookie_in
from headwater.api.pages import cursor_for, position_in
from headwater.api.pages import place_of as position_of
from headwater.api.scope import the_user
from headwater.app import App
from headwater.model import Podcast, Token, User
from headwater.operations.people import DEFAULT, providers_of
from headwater.operations.sessions import token_in_session
from headwater.operations.tokens import NewToken, list_tokens
from headwater.web.forms import one
from headwater.web.place import Place, place_of
from headwater.web.rendering import Pages

PATH = "/accounts"
_PAGE = 50
_MOST_TOKENS = 200
_SECRET_FIELDS = ("apiKey", "token")


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong with a form that was sent, and what stood in it; secrets do not come back."""

    form: str
    message: str
    field: str | None = None
    values: Mapping[str, list[str]] | None = None

    def value(self, form: str, name: str, otherwise: object) -> object:
        """What a person wrote into a field of a form, else what is stored."""
        if form != self.form or self.values is None or name in _SECRET_FIELDS:
            return otherwise
        return one(self.values, name)

    def error(self, form: str, name: str) -> str:
        """What is wrong with a field of a form."""
        return self.message if (form, name) == (self.form, self.field) else ""


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token as it is listed."""

    token: Token
    whose: str | None  # None: an administrator's
    is_own: bool  # this browser is logged in with it


class AccountPage:
    """Gathers and shows it."""

    def __init__(self, app: App, pages: Pages) -> None:
        self._app = app
        self._pages = pages

    async def show(
        self,
        request: Request,
        user_id: str | None = None,
        *,
        wrong: Wrong | None = None,
        made: NewToken | None = None,
    ) -> Response:
        """The page, with what is wrong with a form, or the token that was just made."""
        store = self._app.store
        place = await place_of(store, request)
        wanted = user_id or request.query_params.get("user") or None
        own = DEFAULT if place.user is None else place.user.id
        owner = await the_user(store, request, wanted or own)
        podcasts, more_podcasts = await self._podcasts(request, owner)
        return self._pages.show(
            request,
            "accounts.html",
            place,
            status=200 if wrong is None else 422,
            owner=owner,
            owned=podcasts,
            more_podcasts=more_podcasts,
            has_key="x" in await providers_of(store, owner),
            usual_days=self._app.policy.max_article_age_days,
            made=made,
            wrong=wrong or Wrong("", ""),
            **await self._for_admins(request, place),
        )

    async def _podcasts(
        self, request: Request, owner: User
    ) -> tuple[Sequence[Podcast], str | None]:
        after = position_in(request.query_params.get("podcasts"), int, str)
        found = await self._app.store.people.podcasts_page(owner.id, _PAGE + 1, after=after)
        if len(found) <= _PAGE:
            return found, None
        last = found[_PAGE - 1]
        query = {"user": owner.id, "podcasts": cursor_for(position_of(last.created_at, last.id))}
        return found[:_PAGE], f"{PATH}?{urlencode(query)}"

    async def _for_admins(self, request: Request, place: Place) -> dict[str, Any]:
        if not place.is_admin:
            return {"users": (), "more_users": None, "tokens": (), "more_tokens": 0}
        after = position_in(request.query_params.get("users"), int, str)
        users = await self._app.store.people.users_page(_PAGE + 1, after=after)
        more = None
        if len(users) > _PAGE:
            last = users[_PAGE - 1]
            query = {"users": cursor_for(position_of(last.created_at, last.id))}
            more = f"{PATH}?{urlencode(query)}#users"
        tokens = await list_tokens(self._app.store)
        return {
            "users": users[:_PAGE],
            "more_users": more,
            "tokens": await self._rows(request, tokens[:_MOST_TOKENS]),
            "more_tokens": max(0, len(tokens) - _MOST_TOKENS),
        }

    async def _rows(self, request: Request, tokens: Sequence[Token]) -> list[TokenRow]:
        store = self._app.store
        cookie = cookie_in(request.scope)
        now = self._app.clock.now()
        own = None if cookie is None else await token_in_session(store, cookie, now)
        names = {user.id: user.name for user in await store.people.users()}
        return [
            TokenRow(
                token,
                None if token.user_id is None else names.get(token.user_id, token.user_id),
                own is not None and own.id == token.id,
            )
            for token in tokens
        ]
