"""The accounts page: podcasts and keys of a user, and for administrators users and tokens."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends
from fastapi.responses import RedirectResponse, Response

from headwater.api.dependencies import owned_user
from headwater.api.middleware.authentication import caller_of, need_admin
from headwater.api.schemas.pagination import cursor_for, position_in, position_of
from headwater.errors import Forbidden, NotFound, SecretError, UsageError, WouldDelete
from headwater.model import Podcast, TokenScope, User
from headwater.operations.tokens import NewToken, add_token, revoke_token
from headwater.operations.users_and_podcasts import (
    DEFAULT,
    MAX_AGE_DAYS,
    DeletionCheck,
    add_podcast,
    add_user,
    edit_podcast,
    remove_key,
    remove_podcast,
    remove_user,
    rename_user,
    set_key,
)
from headwater.web.forms import fields_of, one
from headwater.web.page_context import page_context
from headwater.web.rendering import AnyPage, DashboardPage, done

PATH = "/accounts"
_PAGE = 50
_MAX_TOKENS = 200
_TOKEN_DAYS = ("7", "30", "90", "365")
_SECRET_FIELDS = ("apiKey", "token")
Fields = Mapping[str, list[str]]
Change = Callable[[DashboardPage, Fields, Any], Awaitable[Response]]  # of what the URL names


@dataclass(frozen=True, slots=True)
class FormError:
    """The error of a submitted form, and its values without secrets."""

    form: str
    message: str
    field: str | None = None
    values: Fields | None = None
    asks: bool = False  # whether the form is to be sent again with a confirmation

    def value(self, form: str, name: str, stored: object) -> object:
        """Return the submitted value of a field, else the stored one."""
        if form != self.form or self.values is None or name in _SECRET_FIELDS:
            return stored
        return one(self.values, name)

    def error(self, form: str, name: str) -> str:
        """Return the error of a field, or an empty string."""
        return self.message if (form, name) == (self.form, self.field) else ""


routes = APIRouter(prefix=PATH, include_in_schema=False)


@routes.get("")
async def show(page: AnyPage) -> Response:
    """Show podcasts and keys of a user, and to administrators users and tokens."""
    return await _accounts(page)


@routes.get("/{rest:path}")
async def show_instead() -> Response:
    """Redirect a reload after a form to the page."""
    return RedirectResponse(PATH, status_code=303)


def _form(path: str, form: str, *, admin: bool = False) -> Callable[[Change], Change]:
    """Add a form's change as a POST route; show an error of it at the form itself.

    `form` is the id of the form, in which `{id}` stands for the id in `path`.
    """

    def add(change: Change) -> Change:
        async def take(page: AnyPage) -> Response:
            request, id_ = page.request, page.request.path_params.get("id", "")
            target: User | Podcast | str = id_
            user_id = None
            if path.startswith("/users/"):
                target = await owned_user(page.store, caller_of(request), id_)
                user_id = target.id
            elif path.startswith("/podcasts/"):
                target = DashboardPage(
                    request, await page_context(page.store, request, id_)
                ).podcast
                user_id = target.user_id
            fields = await fields_of(request)
            try:
                return await change(page, fields, target)
            except (NotFound, Forbidden):
                raise
            except (UsageError, SecretError) as error:
                field = error.field if isinstance(error, UsageError) else None
                asks = isinstance(error, WouldDelete)
                wrong = FormError(form.replace("{id}", id_), str(error), field, fields, asks)
                return await _accounts(page, user_id, form_error=wrong)

        only = [Depends(need_admin)] if admin else []
        routes.add_api_route(path, take, methods=["POST"], dependencies=only)
        return change

    return add


@_form("/users", "new-user", admin=True)
async def create_user(page: DashboardPage, fields: Fields, __: Any) -> Response:
    """Add a user."""
    user = await add_user(page.store, one(fields, "name"), page.app.clock.now())
    return done(_of(user.id), "user-added")


@_form("/users/{id}/rename", "user", admin=True)
async def change_user(page: DashboardPage, fields: Fields, user: User) -> Response:
    """Rename a user."""
    await rename_user(page.store, user, one(fields, "name"))
    return done(_of(user.id), "user-renamed")


@_form("/users/{id}/delete", "delete-user", admin=True)
async def delete_user(page: DashboardPage, fields: Fields, user: User) -> Response:
    """Delete a user with all podcasts, sources and keys."""
    _require_confirmation(fields)
    await remove_user(page.store, user)
    return done(PATH, "user-deleted")


@_form("/users/{id}/podcasts", "new-podcast")
async def create_podcast(page: DashboardPage, fields: Fields, user: User) -> Response:
    """Add a podcast."""
    podcast = await add_podcast(
        page.store,
        user,
        one(fields, "name"),
        page.app.clock.now(),
        max_article_age_days=_days(fields),
        dedupe_across_sources=bool(one(fields, "dedupe")),
        stories=bool(one(fields, "stories")),
        aggregate_automatically=bool(one(fields, "automatic")),
    )
    return done(f"/podcasts/{quote(podcast.id, safe='')}/add", "podcast-added")


@_form("/podcasts/{id}", "podcast-{id}")
async def change_podcast(page: DashboardPage, fields: Fields, podcast: Podcast) -> Response:
    """Change a podcast; a deletion that follows at once has to be confirmed (E5)."""
    confirmed = one(fields, "confirm") == "yes"
    await edit_podcast(
        page.store,
        podcast,
        page.app.clock.now(),
        check=None if confirmed else DeletionCheck(page.app.clock.now(), page.app.policy),
        name=one(fields, "name"),
        max_article_age_days=_days(fields),
        dedupe_across_sources=bool(one(fields, "dedupe")),
        stories=bool(one(fields, "stories")),
        aggregate_automatically=bool(one(fields, "automatic")),
    )
    return done(_of(podcast.user_id), "podcast-saved")


@_form("/podcasts/{id}/delete", "delete-{id}")
async def delete_podcast(page: DashboardPage, fields: Fields, podcast: Podcast) -> Response:
    """Delete a podcast with its sources, posts and articles."""
    _require_confirmation(fields)
    await remove_podcast(page.store, podcast)
    return done(_of(podcast.user_id), "podcast-deleted")


@_form("/users/{id}/key", "key")
async def put_key(page: DashboardPage, fields: Fields, user: User) -> Response:
    """Store an X key, encrypted, and replace an older one."""
    now, key = page.app.clock.now(), one(fields, "apiKey")
    pollable = page.app.visit_limits.pollable_with_key_for(page.caller_id)
    stored = await set_key(page.store, page.app.vault, user, "x", key, now, pollable=pollable)
    return done(_of(user.id), "key-stored", stored.sources_requested)


@_form("/users/{id}/key/delete", "delete-key")
async def delete_key(page: DashboardPage, fields: Fields, user: User) -> Response:
    """Remove an X key."""
    _require_confirmation(fields)
    await remove_key(page.store, user, "x")
    return done(_of(user.id), "key-removed")


@_form("/tokens", "new-token", admin=True)
async def create_token(page: DashboardPage, fields: Fields, _: Any) -> Response:
    """Create a token; only this response has its secret (U1)."""
    caller, now = caller_of(page.request), page.app.clock.now()
    wanted, access = one(fields, "user"), one(fields, "access")
    if access not in ("", TokenScope.READ, TokenScope.METRICS):
        raise UsageError("a token permits everything, reading, or reading metrics", field="access")
    if access == TokenScope.METRICS:  # they are for no user
        wanted = ""
    user = await owned_user(page.store, caller, wanted) if wanted else None
    made = await add_token(
        page.store,
        user,
        one(fields, "name"),
        now,
        scope=TokenScope(access) if access else None,
        expires_at=_expiry(fields, now),
        creator=caller.token,
    )
    return await _accounts(page, made=made)


@_form("/tokens/{id}/revoke", "revoke-{id}", admin=True)
async def revoke(page: DashboardPage, fields: Fields, id_: str) -> Response:
    """Revoke a token; its sessions end."""
    _require_confirmation(fields)
    await revoke_token(page.store, id_)
    return done(PATH, "token-revoked")


async def _accounts(
    page: DashboardPage,
    user_id: str | None = None,
    *,
    form_error: FormError | None = None,
    made: NewToken | None = None,
) -> Response:
    """Return the page, with the error of a form or a token that was just created."""
    store, request, context = page.store, page.request, page.context
    wanted = user_id or request.query_params.get("user") or None
    own = DEFAULT if context.user is None else context.user.id
    owner = await owned_user(store, caller_of(request), wanted or own)
    after = position_in(request.query_params.get("podcasts"), int, str)
    podcasts = await store.accounts.podcasts(owner.id, limit=_PAGE + 1, after=after)
    admin: dict[str, Any] = {"users": (), "more_users": None, "tokens": (), "more_tokens": 0}
    if context.is_admin:
        admin = await _for_admins(page)
    return page.show(
        "accounts.html",
        status=200 if form_error is None else 422,
        owner=owner,
        owned=podcasts[:_PAGE],
        more_podcasts=_next_page(podcasts, "podcasts", user=owner.id),
        has_key="x" in await store.api_keys.providers(owner.id),
        usual_days=page.app.policy.max_article_age_days,
        made=made,
        form_error=form_error or FormError("", ""),
        **admin,
    )


async def _for_admins(page: DashboardPage) -> dict[str, Any]:
    store, request = page.store, page.request
    after = position_in(request.query_params.get("users"), int, str)
    users = await store.accounts.users(limit=_PAGE + 1, after=after)
    tokens = await store.tokens.all()
    own = caller_of(request).token
    more = _next_page(users, "users")
    return {
        "users": users[:_PAGE],
        "more_users": more and f"{more}#users",
        "tokens": tokens[:_MAX_TOKENS],
        "more_tokens": max(0, len(tokens) - _MAX_TOKENS),
        "user_names": {user.id: user.name for user in await store.accounts.users()},
        "own_token": own and own.id,
    }


def _next_page(found: Sequence[User | Podcast], name: str, **kept: str) -> str | None:
    """Return the URL of the next page of a list; None if this one shows the rest."""
    if len(found) <= _PAGE:
        return None
    cursor = cursor_for(position_of(found[_PAGE - 1]))
    return f"{PATH}?{urlencode({**kept, name: cursor})}"


def _of(user_id: str) -> str:
    """Return the URL of a user's accounts page."""
    return f"{PATH}?{urlencode({'user': user_id})}"


def _require_confirmation(fields: Fields) -> None:
    """Raise UsageError unless the confirmation box is checked."""
    if one(fields, "sure") != "yes":
        raise UsageError("Tick the box first: this cannot be undone.", field="sure")


def _expiry(fields: Fields, now: datetime) -> datetime | None:
    """Return when a new token expires; None: never."""
    days = one(fields, "days")
    if days not in ("", *_TOKEN_DAYS):
        raise UsageError("choose after how many days the token expires", field="days")
    return now + timedelta(days=int(days)) if days else None


def _days(fields: Fields) -> int | None:
    """Return the age limit; None: the default."""
    text = one(fields, "maxArticleAgeDays")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MAX_AGE_DAYS):
        message = f"The age limit is a whole number of days from 1 to {MAX_AGE_DAYS:,}."
        raise UsageError(message, field="maxArticleAgeDays")
    return int(text)
