"""What changed between a post of a page and its previous version (W5)."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.model import Post, Source, SourceType
from headwater.rules.page_versions import version_diff
from headwater.rules.text_diff import DiffPart
from headwater.store import Store
from headwater.store.content_filter import EVERYTHING


@dataclass(frozen=True, slots=True)
class PostDiff:
    """A post compared with the previous version of its page."""

    previous: Post | None  # None: there is none, or it is not stored any more
    parts: Sequence[DiffPart]

    @property
    def from_(self) -> str | None:
        """The id of the previous version."""
        return None if self.previous is None else self.previous.id


async def later_versions(
    store: Store, posts: Sequence[Post], sources: Mapping[str, Source]
) -> set[str]:
    """The ids of posts of pages that have an earlier version to compare them with."""
    pages = {id_ for id_, source in sources.items() if source.type is SourceType.WEBSITE}
    return await store.posts.with_earlier([post.id for post in posts if post.source_id in pages])


async def diff_of(store: Store, post: Post) -> PostDiff:
    """Compare a post with the post that its page had before; those of feeds have no versions."""
    source = (await store.sources.known([post.source_id])).get(post.source_id)
    previous = None
    if source is not None and source.type is SourceType.WEBSITE:
        before = await store.posts.page(
            source_id=source.id, chosen=EVERYTHING, limit=1, before=post.id
        )
        previous = next(iter(before.items), None)
    parts = await asyncio.to_thread(version_diff, previous, post)  # long texts take a while (H2)
    return PostDiff(previous, parts)
