"""Declares a call once for both clients.

A method that returns a `ApiRequest` describes a call: `@operation` makes it one that sends the
request and returns its result, or in `AsyncHeadwater` a coroutine that does. `@listing` makes it
one that returns an iterator over all pages.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload
from urllib.parse import quote, urlencode

from headwater.client.decoding import to_camel

P = ParamSpec("P")
T = TypeVar("T")
_MAX_PAGE = 100  # of the items that a `limit` asks for


@dataclass(frozen=True, kw_only=True)
class Page(Generic[T]):
    """A page of a list. With `cursor=next_cursor` the next one is read; None: it is the last.

    Posts and articles that are read by number continue with `after=next_after`, now or later.
    """

    items: tuple[T, ...]
    next_cursor: str | None
    next_after: int | None = None
    next_changed_after: int | None = None


@dataclass(frozen=True)
class ApiRequest(Generic[T]):
    """A call of the API, and the type of its result."""

    method: str
    path: str
    result: type[T]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None  # JSON, or text with its content type
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """The path and the query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


def path_of(*segments: str) -> str:
    """A path below `/api`. Names can contain any character, but cannot lead to another path."""
    for segment in segments:
        if segment in ("", ".", ".."):
            raise ValueError(f"{segment!r} is not a name or id")
    return "/".join(("/api", *(quote(segment, safe="") for segment in segments)))


def given(**values: Any) -> dict[str, Any]:
    """Parameters of a query with their names in the API; those that are None are left out."""
    return {to_camel(name): _text(value) for name, value in values.items() if value is not None}


def body_of(**values: Any) -> dict[str, Any]:
    """A request body with the names of the API."""
    return {to_camel(name): _json(value) for name, value in values.items()}


def matching(etag: str | None) -> dict[str, str]:
    """The header of a change that depends on the version of what it changes."""
    return {} if etag is None else {"If-Match": etag}


def once(key: str | None) -> dict[str, str]:
    """The header by which a request that is sent again has no second effect."""
    return {} if key is None else {"Idempotency-Key": key}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)


def _json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


class Sender(ABC):
    """A client whose calls block."""

    @abstractmethod
    def send(self, request: ApiRequest[T]) -> T:
        """Send a request and return its result."""


class AsyncSender(ABC):
    """A client whose calls are coroutines."""

    @abstractmethod
    async def send(self, request: ApiRequest[T]) -> T:
        """Send a request and return its result."""


class operation(Generic[P, T]):  # noqa: N801 - used as a decorator
    """A call that sends one request."""

    def __init__(self, build: Callable[Concatenate[Any, P], ApiRequest[T]]) -> None:
        self.build = build
        update_wrapper(self, build)  # type: ignore[arg-type]

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: Sender, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncSender, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        """The call of a client."""
        if client is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.send(self.build(client, *args, **kwargs))

        return update_wrapper(call, self.build)


class Items(Generic[P, T]):
    """A list: calling it iterates over its items, `page` returns one page."""

    def __init__(self, client: Sender, build: Callable[P, ApiRequest[Page[T]]]) -> None:
        self._client = client
        self._build = build
        update_wrapper(self, build)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        """The items of all pages; `limit` is the maximum number of items."""
        pages = Pages(self._build(*args, **kwargs))
        while pages.request is not None:
            yield from pages.items_of(self._client.send(pages.request))

    def page(self, *args: P.args, **kwargs: P.kwargs) -> Page[T]:
        """One page; `limit` is the maximum number of its items."""
        return self._client.send(self._build(*args, **kwargs))


class AsyncItems(Generic[P, T]):
    """The same for `AsyncHeadwater`."""

    def __init__(self, client: AsyncSender, build: Callable[P, ApiRequest[Page[T]]]) -> None:
        self._client = client
        self._build = build
        update_wrapper(self, build)

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        """The items of all pages; `limit` is the maximum number of items."""
        pages = Pages(self._build(*args, **kwargs))
        while pages.request is not None:
            for item in pages.items_of(await self._client.send(pages.request)):
                yield item

    async def page(self, *args: P.args, **kwargs: P.kwargs) -> Page[T]:
        """One page; `limit` is the maximum number of its items."""
        return await self._client.send(self._build(*args, **kwargs))


class listing(Generic[P, T]):  # noqa: N801 - used as a decorator
    """A call that reads a list page by page."""

    def __init__(self, build: Callable[Concatenate[Any, P], ApiRequest[Page[T]]]) -> None:
        self.build = build
        update_wrapper(self, build)  # type: ignore[arg-type]

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: Sender, owner: type) -> Items[P, T]: ...
    @overload
    def __get__(self, client: AsyncSender, owner: type) -> AsyncItems[P, T]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        """The list of a client."""
        if client is None:
            return self
        build = self.build.__get__(client)
        return (AsyncItems if isinstance(client, AsyncSender) else Items)(client, build)


class Pages(Generic[T]):
    """The requests that read a list from its first page to its last."""

    def __init__(self, first: ApiRequest[Page[T]]) -> None:
        limit = first.query.get("limit")
        self._left = None if limit is None else int(limit)
        self.request: ApiRequest[Page[T]] | None = self._limited(first)

    def items_of(self, page: Page[T]) -> tuple[T, ...]:
        """The items of the page that `request` has read; `request` is now that of the next."""
        assert self.request is not None
        items, query = page.items[: self._left], self.request.query
        if self._left is not None:
            self._left -= len(items)
        position = _next_position(query, page)
        if position is None or self._left == 0:
            self.request = None
        else:
            self.request = self._limited(replace(self.request, query={**query, **position}))
        return items

    def _limited(self, request: ApiRequest[Page[T]]) -> ApiRequest[Page[T]]:
        if self._left is None:
            return request
        return replace(request, query={**request.query, "limit": min(self._left, _MAX_PAGE)})


def _next_position(query: Mapping[str, Any], page: Page[Any]) -> dict[str, Any] | None:
    """The parameter that continues after a page; None after the last one."""
    if page.next_cursor is not None:
        return {"cursor": page.next_cursor}
    for name, number in (("after", page.next_after), ("changedAfter", page.next_changed_after)):
        # a page without items may still advance: the service has read, and left out, some
        if number is not None and str(number) != str(query[name]):
            return {name: number}
    return None
