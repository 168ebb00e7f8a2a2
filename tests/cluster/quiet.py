"""A worker that tells nobody what happens."""

import sys
from collections.abc import Sequence

from headwater.__main__ import main
from headwater.store.notices import Notices


async def tell(_: Notices, texts: Sequence[str]) -> None:
    return None


Notices.tell = tell  # type: ignore[method-assign,assignment]

if __name__ == "__main__":
    sys.exit(main())
