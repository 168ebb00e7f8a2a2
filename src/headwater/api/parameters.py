"""Refuses parameters that nobody knows, and text in them that nothing stored can have."""

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from headwater.api.callers import FOR_PROGRAMS
from headwater.errors import NotFound, UsageError
from headwater.rules.lines import is_one_line


async def refuse_odd_parameters(request: Request) -> None:
    """Let a request in if its route knows every parameter, and a database could keep it."""
    for name, value in request.path_params.items():
        if not is_one_line(str(value)):
            raise NotFound(f"there is nothing with this {name!r}")
    given = request.query_params.multi_items()
    # pages pass over what they do not know: a person may have followed an old link
    is_page = not request.url.path.startswith(FOR_PROGRAMS)
    known = _query_names(request.scope["route"]) if given and not is_page else frozenset()
    seen: set[str] = set()
    for name, value in given:
        if not is_page and name not in known:
            raise UsageError(_unknown(name, known), field=name)
        if not is_page and name in seen:
            raise UsageError(f"the parameter {name!r} is given more than once", field=name)
        seen.add(name)
        if not is_one_line(value):
            raise UsageError(f"the parameter {name!r} is not one line of text", field=name)


async def refuse_body(request: Request) -> None:
    """Let a request in that has nothing to say besides its path; `{}` says nothing."""
    if (await request.body()).strip() not in (b"", b"{}"):
        raise UsageError("this call takes no body", field="body")


def _unknown(name: str, known: frozenset[str]) -> str:
    there_are = f"; there are: {', '.join(sorted(known))}" if known else ""
    return f"there is no parameter {name!r} here{there_are}"


def _query_names(route: APIRoute) -> frozenset[str]:
    """What a route, and whatever it depends on, reads from the query."""
    names: set[str] = set()
    left: list[Dependant] = [route.dependant]
    while left:
        dependant = left.pop()
        names |= {field.alias for field in dependant.query_params}
        left += dependant.dependencies
    return frozenset(names)
