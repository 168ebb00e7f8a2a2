"""Stories in lists and articles, and their undo (I2, I3); `story_grouping.py` finds them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from headwater.errors import NotFound
from headwater.model import AlsoFrom, ArticleSource, Post
from headwater.rules.stories import WINDOW
from headwater.store.database import Row, Session, Tables, writes
from headwater.store.row_mapping import from_ms, row_reader, to_ms
from headwater.store.sequence_numbers import mark_changed

_MARKS_PER_POST = 17
_COPIES_PER_BATCH = 1000
MAX_ALSO_FROM = 50  # other posts of a story that are listed
# The post that represents a story has the fullest text, or is the earliest of those (I2). Once an
# article of the story is processed, a post that it was made of does: a longer copy that arrives
# later is not presented again. A post that a filter hides represents only other hidden ones (B2).
_RANK = """coalesce(length({0}.page_text), length({0}.body)),
    -coalesce({0}.published_at, {0}.created_at), -{0}.seq"""
_IS_USED = """CASE WHEN EXISTS (SELECT 1 FROM post_articles l JOIN articles a ON a.id = l.article_id
    WHERE l.post_id = {0}.id AND NOT l.is_copy AND a.is_processed) THEN 1 ELSE 0 END"""
_IS_SHOWN = "CASE WHEN {0}.filtered_by IS NULL THEN 1 ELSE 0 END"
_SHOWN_RANK = f"({_IS_SHOWN}, {_IS_USED}, {_RANK})"
_POST_ONCE = f"""NOT EXISTS (SELECT 1 FROM posts o WHERE o.story_id = posts.story_id
    AND {_SHOWN_RANK.format("o")} > {_SHOWN_RANK.format("posts")}{{0}})"""
# A condition on posts named {0}: an article of their story is processed.
PROCESSED_STORY = """EXISTS (SELECT 1 FROM posts m JOIN post_articles l ON l.post_id = m.id
        JOIN articles a ON a.id = l.article_id
    WHERE m.story_id = {0}.story_id AND m.is_linked AND a.is_processed)"""
# what these conditions call the other posts or articles of a story
OTHER = {"posts": "o", "articles": "other"}
# A condition on waiting posts: none of the story is in an article or waits for its page (T4), and
# none that also waits has a fuller text.
WAITING_ONCE = f""" AND NOT EXISTS (SELECT 1 FROM posts o WHERE o.story_id = posts.story_id
    AND o.id <> posts.id AND (o.is_linked
        OR (o.created_at >= :after OR o.kept_until IS NOT NULL) AND o.filtered_by IS NULL
            AND ({_RANK.format("o")}) > ({_RANK.format("posts")})
        OR EXISTS (SELECT 1 FROM page_visits v
            WHERE v.post_id = o.id AND v.created_at > :pending_since)))"""
# A condition on articles: a story that several of them report is shown once.
_ARTICLE_RANK = """(CASE WHEN {0}.is_processed THEN 1 ELSE 0 END, length({0}.body),
    -coalesce({0}.published_at, {0}.created_at), {0}.id)"""
_ARTICLE_ONCE = f"""NOT EXISTS (SELECT 1 FROM post_articles own
        JOIN posts p ON p.id = own.post_id JOIN posts o ON o.story_id = p.story_id
        JOIN post_articles link ON link.post_id = o.id AND NOT link.is_copy
        JOIN articles other ON other.id = link.article_id
    WHERE own.article_id = articles.id AND NOT own.is_copy AND other.id <> articles.id
        AND {_ARTICLE_RANK.format("other")} > {_ARTICLE_RANK.format("articles")}
        AND 1 = (SELECT count(*) FROM post_articles n
            WHERE n.article_id = articles.id AND NOT n.is_copy){{0}})"""
# Waiting posts c whose story is in an article of the link l.
_COPIES = """FROM posts c JOIN posts m ON m.story_id = c.story_id AND m.id <> c.id
    JOIN post_articles l ON l.post_id = m.id AND NOT l.is_copy
    WHERE c.podcast_id = :podcast AND NOT c.is_linked AND c.story_id IS NOT NULL
        AND c.filtered_by IS NULL"""
_read_source = row_reader(ArticleSource, "sources")


def articles_of(session: Session, stories: Iterable[str]) -> list[str]:
    """The articles that were made of posts of these stories."""
    sql = """SELECT DISTINCT l.article_id FROM posts p JOIN post_articles l ON l.post_id = p.id
        WHERE p.story_id IN :stories AND p.is_linked AND NOT l.is_copy ORDER BY l.article_id"""
    return [row[0] for row in session.fetch(sql, {"stories": set(stories)})]


def story_once(table: str, among: str = "") -> str:
    """A condition on posts or articles: they represent their story (I2).

    `among` has conditions on those that can represent it, `OTHER` of the table, each with a
    leading AND: those that a list has.
    """
    return (_ARTICLE_ONCE if table == "articles" else _POST_ONCE).format(among)


def with_also_from(session: Session, posts: Sequence[Post]) -> list[Post]:
    """Posts with the other posts of their stories (I2)."""
    stories = {post.story_id for post in posts if post.story_id is not None}
    members = _members(session, stories, MAX_ALSO_FROM + 1)
    if not members:
        return list(posts)
    return [
        replace(post, also_from=_others(members.get(post.story_id or "", ()), {post.id}))
        for post in posts
    ]


def also_from_of_articles(
    session: Session, links: Sequence[Row]
) -> dict[str, tuple[AlsoFrom, ...]]:
    """The posts that report the same as those that each article was made of, by article.

    `links` are ids of articles and posts, and the stories of the posts.
    """
    most = max(Counter((article, story) for article, _, story in links).values(), default=0)
    stories = {story for *_, story in links if story is not None}
    members = _members(session, stories, MAX_ALSO_FROM + most)
    own, others = dict[str, set[str]](), dict[str, dict[str, AlsoFrom]]()
    for article_id, post_id, story in links:
        own.setdefault(article_id, set()).add(post_id)
        found = {each.post_id: each for each in members.get(story, ())}
        others[article_id] = others.get(article_id, {}) | found
    return {id_: _others(list(found.values()), own[id_]) for id_, found in others.items()}


def _others(members: Sequence[AlsoFrom], own: set[str]) -> tuple[AlsoFrom, ...]:
    return tuple(each for each in members if each.post_id not in own)[:MAX_ALSO_FROM]


def _members(session: Session, stories: set[str], most: int) -> dict[str, list[AlsoFrom]]:
    """The first posts of each story, earliest first; a story may have thousands."""
    if not stories:
        return {}
    sql = """SELECT p.story_id, p.id, p.url, p.moment, s.id, coalesce(s.label, s.title), s.type,
            s.url
        FROM (SELECT story_id, id, source_id, url, seq,
                coalesce(published_at, created_at) AS moment,
                row_number() OVER (PARTITION BY story_id
                    ORDER BY coalesce(published_at, created_at), seq) AS place
            FROM posts WHERE story_id IN :stories AND filtered_by IS NULL) p
        JOIN sources s ON s.id = p.source_id WHERE p.place <= :most ORDER BY p.moment, p.seq"""
    members: dict[str, list[AlsoFrom]] = {}
    for story, id_, url, at, *source in session.fetch(sql, {"stories": stories, "most": most}):
        each = AlsoFrom(id_, _read_source.one(source), url, from_ms(at))
        members.setdefault(story, []).append(each)
    return members


def _undo(session: Session, podcast_id: str, post_id: str) -> bool:
    """Remove a post from its story for good; False: it has none (I3).

    Posts that were linked to an article as copies, of this post or with it, are waiting again.
    """
    # grouping waits: it replaces the marks of posts whose page was read
    session.fetch("SELECT value FROM facts WHERE name = 'cursor:stories' FOR UPDATE")
    sql = """SELECT seq, story_id FROM posts WHERE id = :id AND podcast_id = :podcast FOR UPDATE"""
    rows = session.fetch(sql, {"id": post_id, "podcast": podcast_id})
    if not rows:
        raise NotFound(f"there is no post {post_id}")
    seq, story = rows[0]
    if story is None:
        return False
    session.execute("DELETE FROM story_marks WHERE seq = :seq", {"seq": seq})
    articles = articles_of(session, [story])
    sql = "SELECT id FROM posts WHERE story_id = :story AND id <> :id ORDER BY id FOR UPDATE"
    others = [row[0] for row in session.fetch(sql, {"story": story, "id": post_id})]
    left = [post_id, *(others if len(others) == 1 else ())]  # one post is not a story
    _unlink_copies(session, post_id, others)
    session.execute("UPDATE posts SET story_id = NULL WHERE id IN :ids", {"ids": left})
    mark_changed(session, "posts", left)
    mark_changed(session, "articles", articles)
    return True


def _unlink_copies(session: Session, post_id: str, others: Sequence[str]) -> None:
    """Unlink the post from articles of the others, and the others from articles of the post."""
    sql = """SELECT l.post_id, l.article_id FROM post_articles l
        JOIN post_articles made ON made.article_id = l.article_id AND NOT made.is_copy
        WHERE l.is_copy AND (l.post_id = :id AND made.post_id IN :others
            OR l.post_id IN :others AND made.post_id = :id)"""
    links = session.fetch(sql, {"id": post_id, "others": list(others)})
    sql = "DELETE FROM post_articles WHERE post_id = :post AND article_id = :article AND is_copy"
    session.execute_many(sql, [{"post": post, "article": article} for post, article in links])
    sql = """UPDATE posts SET is_linked = FALSE WHERE id IN :ids
        AND NOT EXISTS (SELECT 1 FROM post_articles l WHERE l.post_id = posts.id)"""
    session.execute(sql, {"ids": {post for post, _ in links}})


def find_copies(session: Session, podcast_id: str) -> dict[str, str]:
    """Waiting posts, with the article that their story has already; not all of very many (I2)."""
    sql = f"SELECT c.id, min(l.article_id) {_COPIES} GROUP BY c.id LIMIT {_COPIES_PER_BATCH}"
    return dict(session.fetch(sql, {"podcast": podcast_id}))


def count_copies(session: Session, podcast_id: str) -> int:
    """How many waiting posts have a story with an article."""
    sql = f"SELECT count(DISTINCT c.id) {_COPIES}"
    return int(session.fetch(sql, {"podcast": podcast_id})[0][0])


def count_copies_of(session: Session, post_ids: Sequence[str]) -> int:
    """How many waiting posts are copies of these, which represent stories without an article."""
    sql = """SELECT count(DISTINCT c.id) FROM posts m
        JOIN posts c ON c.story_id = m.story_id AND c.id <> m.id
        WHERE m.id IN :ids AND NOT m.is_linked AND NOT c.is_linked AND c.filtered_by IS NULL"""
    return int(session.fetch(sql, {"ids": post_ids})[0][0])


def link_copies(session: Session, found: Mapping[str, str]) -> int:
    """Link posts that `find_copies` found to their articles; return how many."""
    # articles may be deleted, and posts linked, by other transactions meanwhile; like aggregation,
    # which extends articles, this locks posts first
    sql = "SELECT id FROM posts WHERE id IN :ids AND NOT is_linked ORDER BY id FOR UPDATE"
    waiting = [row[0] for row in session.fetch(sql, {"ids": list(found)})]
    sql = "SELECT id FROM articles WHERE id IN :ids ORDER BY id FOR KEY SHARE"
    articles = {row[0] for row in session.fetch(sql, {"ids": set(found.values())})}
    ids = [id_ for id_ in waiting if found[id_] in articles]
    links = [{"post_id": i, "article_id": found[i], "is_copy": True} for i in ids]
    session.insert_rows("post_articles", links, "ON CONFLICT DO NOTHING")
    session.execute("UPDATE posts SET is_linked = TRUE WHERE id IN :ids", {"ids": ids})
    return len(ids)


def find_expired_marks(session: Session, now: datetime, limit: int) -> list[int]:
    """The oldest numbers with marks whose posts are deleted or older than the window."""
    sql = """SELECT oldest.seq FROM (SELECT DISTINCT seq FROM story_marks ORDER BY seq LIMIT :limit)
            AS oldest LEFT JOIN posts p ON p.seq = oldest.seq
        WHERE p.created_at IS NULL OR p.created_at < :before"""
    params = {"before": to_ms(now - WINDOW), "limit": max(limit // _MARKS_PER_POST, 1)}
    return [row[0] for row in session.fetch(sql, params)]


def remove_marks(session: Session, seqs: Sequence[int], _limit: int) -> int:
    """Delete the marks of these numbers; return how many."""
    return session.execute("DELETE FROM story_marks WHERE seq IN :seqs", {"seqs": seqs})


class Stories(Tables):
    """The stories of posts."""

    undo = writes(_undo)
