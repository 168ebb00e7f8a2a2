"""One call of a tool: the API that it may use, and how its results are written."""

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from headwater.errors import CallFailed
from headwater.mcp_server.api_calls import Api
from headwater.mcp_server.external_text import ExternalText

TITLE, NAME, ERROR, URL = 200, 80, 400, 500  # characters in a response
_PAGE = 100
_URL = re.compile(r"[^\s\x00-\x1f\x7f<>]*")
Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$")]  # cannot lead to another path
PodcastName = Annotated[
    str | None,
    Field(
        max_length=200,
        description="The podcast, by id or name. It can be left out if there is only one.",
    ),
]
Cursor = Annotated[
    str | None,
    Field(max_length=500, description="`nextCursor` of the previous response, to continue."),
]
Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Reads from the API for one call of a tool."""

    api: Api
    external: ExternalText = field(default_factory=ExternalText)

    async def get(self, path: str, **query: object) -> Any:
        """The JSON at a path; parameters that are None are left out."""
        given = {name: value for name, value in query.items() if value is not None}
        return await self.api.call("GET", path, given)

    async def podcast(self, name: str | None) -> Item:
        """The podcast with this id or name, or the only one."""
        found = [one async for one in self._podcasts() if name in (None, one["id"], one["name"])]
        chosen = [one for one in found if one["id"] == name] or found
        if len(chosen) == 1:
            return chosen[0]
        if not chosen:
            what = "there is no podcast yet" if name is None else f"there is no podcast {name!r}"
            raise CallFailed(f"{what}; list_podcasts lists them")
        ids = ", ".join(one["id"] for one in chosen[:10])
        what = (
            "name one of them" if name is None else f"{name!r} is the name of several; give an id"
        )
        raise CallFailed(f"there are {len(chosen)} podcasts: {what}: {ids}")

    async def _podcasts(self) -> AsyncIterator[Item]:
        cursor = None
        while True:
            page = await self.get("/api/podcasts", limit=_PAGE, cursor=cursor)
            for one in page["items"]:
                yield one
            cursor = page["nextCursor"]
            if cursor is None:
                return

    async def podcast_path(self, name: str | None) -> str:
        """The path of a podcast in the API."""
        return path_of(await self.podcast(name))

    def source_name(self, source: Item | None) -> str | None:
        """What a source is called: by its owner, or by its feed."""
        if source is None:
            return None
        return self.external.mark(source.get("label") or source.get("title"), NAME)


def path_of(podcast: Item) -> str:
    """The path of a podcast in the API."""
    return f"/api/users/{podcast['userId']}/podcasts/{podcast['id']}"


def short_url(url: str | None) -> str | None:
    """A URL; None: it is too long for a response, or has characters that URLs cannot have."""
    return url if url is not None and len(url) <= URL and _URL.fullmatch(url) else None


def chosen(item: Item, names: Iterable[str]) -> dict[str, Any]:
    """Some members of an item; those that are null are left out."""
    return {name: item[name] for name in names if item.get(name) is not None}


class Tool(BaseModel):
    """A tool: its fields are its arguments, its docstring is what a model reads about it."""

    model_config = ConfigDict(extra="forbid")
    writes: ClassVar[bool] = False  # whether it changes something

    async def run(self, call: ToolCall) -> dict[str, Any]:
        """The result as JSON values."""
        raise NotImplementedError
