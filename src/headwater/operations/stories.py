"""Stories: removing a post from one."""

from headwater.model import Podcast
from headwater.store import Store
from headwater.store.audit import describe


async def undo_story(store: Store, podcast: Podcast, post_id: str) -> bool:
    """Remove a post from its story for good; False: it has none (I3)."""
    describe("post.story.undo", f"post {post_id}")
    return await store.stories.undo(podcast.id, post_id)
