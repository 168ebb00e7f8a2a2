"""A worker that publishes no events."""

import sys
from collections.abc import Sequence

from headwater.__main__ import main
from headwater.store.postgres import NotifyChannel


async def send(_: NotifyChannel, texts: Sequence[str]) -> None:
    return None


NotifyChannel.send = send  # type: ignore[method-assign,assignment]

if __name__ == "__main__":
    sys.exit(main())
