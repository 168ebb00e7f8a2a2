"""Full text advice: compares entries of a feed with their pages for a preview (T4)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from headwater.errors import FetchError
from headwater.model import Entry, Source, SourceType
from headwater.rules.failure_kinds import one_line
from headwater.rules.full_text import (
    FullTextAdvice,
    PageComparison,
    compared_page,
    entries_to_compare,
    full_text_advice,
)

_SECONDS = 20.0  # for all pages, including the delays of their hosts


async def advice_for(
    source: Source, entries: Sequence[Entry], read_page: Callable[[str], Awaitable[str]]
) -> FullTextAdvice | None:
    """Whether `fullText` is worthwhile for a feed; None: it is not a feed, or has no entries.

    `read_page` visits a page and returns its text.
    """
    if source.type is not SourceType.RSS or not entries:
        return None
    chosen, compared = entries_to_compare(source, entries), list[PageComparison]()
    try:
        async with asyncio.timeout(_SECONDS):
            for entry in chosen:
                compared.append(await _compared(entry, read_page))
    except TimeoutError:
        error = f"the pages could not be read within {_SECONDS:.0f} s"
        left = chosen[len(compared) :]
        compared += [PageComparison(one.url or "", len(one.body), None, error) for one in left]
    return full_text_advice(compared)


async def _compared(entry: Entry, read_page: Callable[[str], Awaitable[str]]) -> PageComparison:
    try:
        text = await read_page(entry.url or "")
    except FetchError as error:
        message = f"a page could not be read: {one_line(error)}"
        return PageComparison(entry.url or "", len(entry.body), None, message)
    return await asyncio.to_thread(compared_page, entry, text)  # a page may be long (H2)
