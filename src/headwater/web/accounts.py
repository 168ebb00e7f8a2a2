"""Accounts: podcasts and X keys of users, and for administrators users and access tokens."""

from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response

from headwater.api.callers import need_admin
from headwater.api.scope import the_user
from headwater.app import App
from headwater.errors import Forbidden, NotFound, SecretError, UsageError
from headwater.model import Podcast
from headwater.operations.people import (
    MAX_AGE_DAYS,
    add_podcast,
    add_user,
    edit_podcast,
    remove_key,
    remove_podcast,
    remove_user,
    rename_user,
    set_key,
)
from headwater.operations.tokens import add_token, revoke_token
from headwater.web.account_page import PATH, AccountPage, Wrong
from headwater.web.forms import fields_of, one
from headwater.web.place import place_of
from headwater.web.rendering import Pages, done

Fields = Mapping[str, list[str]]
_ADMIN = [Depends(need_admin)]


def account_routes(app: App, pages: Pages) -> APIRouter:
    """`/accounts`."""
    routes = APIRouter(prefix=PATH, include_in_schema=False)
    page = AccountPage(app, pages)

    @routes.get("")
    async def show(request: Request) -> Response:
        """Show somebody's podcasts and keys, and to administrators users and tokens."""
        return await page.show(request)

    for add in (_add_users, _add_podcasts, _add_keys, _add_tokens):
        add(routes, app, page)

    @routes.get("/{rest:path}")
    async def show_instead() -> Response:
        """Lead whoever reloads the answer to a form back to the page."""
        return RedirectResponse(PATH, status_code=303)

    return routes


def _add_users(routes: APIRouter, app: App, page: AccountPage) -> None:
    """Users, which are an administrator's to change."""
    store = app.store

    @routes.post("/users", dependencies=_ADMIN)
    async def create_user(request: Request) -> Response:
        """Add a user."""

        async def change(fields: Fields) -> Response:
            user = await add_user(store, one(fields, "name"), app.clock.now())
            return done(_of(user.id), "user-added")

        return await _tried(page, request, "new-user", change)

    @routes.post("/users/{u}/rename", dependencies=_ADMIN)
    async def change_user(request: Request, u: str) -> Response:
        """Rename a user."""

        async def change(fields: Fields) -> Response:
            await rename_user(store, await the_user(store, request, u), one(fields, "name"))
            return done(_of(u), "user-renamed")

        return await _tried(page, request, "user", change, u)

    @routes.post("/users/{u}/delete", dependencies=_ADMIN)
    async def delete_user(request: Request, u: str) -> Response:
        """Delete a user with everything that is theirs."""

        async def change(fields: Fields) -> Response:
            _be_sure(fields)
            await remove_user(store, await the_user(store, request, u))
            return done(PATH, "user-deleted")

        return await _tried(page, request, "delete-user", change, u)


def _add_podcasts(routes: APIRouter, app: App, page: AccountPage) -> None:
    """Somebody's podcasts."""
    store = app.store

    @routes.post("/users/{u}/podcasts")
    async def create_podcast(request: Request, u: str) -> Response:
        """Add a podcast."""

        async def change(fields: Fields) -> Response:
            await add_podcast(
                store,
                await the_user(store, request, u),
                one(fields, "name"),
                app.clock.now(),
                max_article_age_days=_days(fields),
                dedupe_across_sources=bool(one(fields, "dedupe")),
            )
            return done(_of(u), "podcast-added")

        return await _tried(page, request, "new-podcast", change, u)

    @routes.post("/podcasts/{p}")
    async def change_podcast(request: Request, p: str) -> Response:
        """Change a podcast."""
        podcast = await _podcast_at(app, request, p)

        async def change(fields: Fields) -> Response:
            days = _days(fields)
            await edit_podcast(
                store,
                podcast,
                name=one(fields, "name"),
                max_article_age_days=days,
                default_article_age=days is None,
                dedupe_across_sources=bool(one(fields, "dedupe")),
            )
            return done(_of(podcast.user_id), "podcast-saved")

        return await _tried(page, request, f"podcast-{p}", change, podcast.user_id)

    @routes.post("/podcasts/{p}/delete")
    async def delete_podcast(request: Request, p: str) -> Response:
        """Delete a podcast with everything that belongs to it."""
        podcast = await _podcast_at(app, request, p)

        async def change(fields: Fields) -> Response:
            _be_sure(fields)
            await remove_podcast(store, podcast)
            return done(_of(podcast.user_id), "podcast-deleted")

        return await _tried(page, request, f"delete-{p}", change, podcast.user_id)


def _add_keys(routes: APIRouter, app: App, page: AccountPage) -> None:
    """Somebody's X key, which goes in and never out."""
    store = app.store

    @routes.post("/users/{u}/key")
    async def put_key(request: Request, u: str) -> Response:
        """Store an X key, sealed, instead of an older one."""

        async def change(fields: Fields) -> Response:
            user, now = await the_user(store, request, u), app.clock.now()
            stored = await set_key(store, app.vault, user, "x", one(fields, "apiKey"), now)
            return done(_of(u), "key-stored", stored.sources_requested)

        return await _tried(page, request, "key", change, u)

    @routes.post("/users/{u}/key/delete")
    async def delete_key(request: Request, u: str) -> Response:
        """Forget an X key."""

        async def change(fields: Fields) -> Response:
            _be_sure(fields)
            await remove_key(store, await the_user(store, request, u), "x")
            return done(_of(u), "key-removed")

        return await _tried(page, request, "delete-key", change, u)


def _add_tokens(routes: APIRouter, app: App, page: AccountPage) -> None:
    """Access tokens, which are an administrator's to make."""
    store = app.store

    @routes.post("/tokens", dependencies=_ADMIN)
    async def create_token(request: Request) -> Response:
        """Make a token; its secret is on this very answer and nowhere else (U1)."""

        async def change(fields: Fields) -> Response:
            wanted = one(fields, "user")
            user = await the_user(store, request, wanted) if wanted else None
            made = await add_token(store, user, one(fields, "name"), app.clock.now())
            return await page.show(request, made=made)

        return await _tried(page, request, "new-token", change)

    @routes.post("/tokens/{t}/revoke", dependencies=_ADMIN)
    async def revoke(request: Request, t: str) -> Response:
        """Revoke a token: whoever is logged in with it is out."""

        async def change(fields: Fields) -> Response:
            _be_sure(fields)
            await revoke_token(store, t)
            return done(PATH, "token-revoked")

        return await _tried(page, request, f"revoke-{t}", change)


async def _podcast_at(app: App, request: Request, podcast_id: str) -> Podcast:
    place = await place_of(app.store, request, podcast_id)
    assert place.podcast is not None
    return place.podcast


async def _tried(
    page: AccountPage,
    request: Request,
    form: str,
    change: Callable[[Fields], Awaitable[Response]],
    user_id: str | None = None,
) -> Response:
    """Do what a form asks for; what is wrong with it is shown at the form itself."""
    fields = await fields_of(request)
    try:
        return await change(fields)
    except (NotFound, Forbidden):
        raise
    except (UsageError, SecretError) as error:
        field = error.field if isinstance(error, UsageError) else None
        return await page.show(request, user_id, wrong=Wrong(form, str(error), field, fields))


def _of(user_id: str) -> str:
    """The page with the podcasts and keys of a user."""
    return f"{PATH}?{urlencode({'user': user_id})}"


def _be_sure(fields: Fields) -> None:
    """Refuse what takes much with it, unless the person has ticked that they mean it."""
    if one(fields, "sure") != "yes":
        raise UsageError("Tick the box first: this cannot be undone.", field="sure")


def _days(fields: Fields) -> int | None:
    """The age limit that was given; None: the usual one."""
    text = one(fields, "maxArticleAgeDays")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MAX_AGE_DAYS):
        told = f"The age limit is a whole number of days from 1 to {MAX_AGE_DAYS:,}."
        raise UsageError(told, field="maxArticleAgeDays")
    return int(text)
