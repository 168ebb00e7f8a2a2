"""A simulated host whose replies a test scripts."""

from collections.abc import Awaitable, Callable
from inspect import isawaitable

from headwater.demo.demo_web import DemoHost, DemoSource, Reply, Request


class ScriptedHost(DemoHost):
    """A host whose replies a function makes; None closes the connection."""

    def __init__(
        self,
        script: Callable[[Request], Reply | Awaitable[Reply | None] | None],
        *,
        name: str = "scripted.demo",
        about: str = "replies by a script",
        sources: tuple[DemoSource, ...] = (),
    ) -> None:
        async def site(request: Request) -> Reply | None:
            reply = script(request)
            return await reply if isawaitable(reply) else reply

        super().__init__(name, about, site, sources)
