"""Stories: posts of a podcast that report the same in the same words share a `story_id` (I1-I3).

A follower writes the marks of every post to `story_marks` and looks up earlier posts with the same
ones. A post whose story was undone by hand has no marks any more: nothing is grouped with it again.
Marks are not part of backups: a restored post is not compared with later ones.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from headwater.errors import NotFound
from headwater.model import AlsoFrom, ArticleSource, Post
from headwater.rules.stories import (
    COMPARED_CHARACTERS,
    MARKS_IN_COMMON,
    WINDOW,
    Marks,
    StoryPost,
    best_match,
    marks_of,
    story_id,
)
from headwater.store.database import Row, Session, Tables, writes
from headwater.store.row_mapping import from_ms, row_reader, to_ms
from headwater.store.sequence_numbers import mark_changed

_POSTS_PER_MARK = 100  # the newest with a mark; more have it if it is part of boilerplate
_COMPARED_POSTS = 20  # with which one post is compared
_MARKS_PER_POST = 17
_COPIES_PER_BATCH = 1000
MAX_ALSO_FROM = 50  # other posts of a story that are listed
# Earlier posts by mark. One index range per mark: the LIMIT is inside of the loop.
_CANDIDATES = {
    "sqlite": f"""SELECT w.seq, w.is_link, found.value, count(*) FROM
        (SELECT each.value ->> 0 AS seq, each.value ->> 1 AS mark, each.value ->> 2 AS is_link
            FROM json_each(:wanted) AS each) AS w
        CROSS JOIN json_each((SELECT json_group_array(seq) FROM (SELECT seq FROM story_marks m
            WHERE m.mark = w.mark AND m.seq < w.seq
            ORDER BY m.seq DESC LIMIT {_POSTS_PER_MARK}))) AS found
        GROUP BY w.seq, w.is_link, found.value
        HAVING w.is_link = 1 OR count(*) >= {MARKS_IN_COMMON}""",
    "postgres": f"""SELECT w.seq, w.is_link, found.seq, count(*) FROM
        unnest(CAST(:seqs AS BIGINT[]), CAST(:marks AS BIGINT[]), CAST(:links AS INTEGER[]))
            AS w (seq, mark, is_link)
        CROSS JOIN LATERAL (SELECT m.seq FROM story_marks m
            WHERE m.mark = w.mark AND m.seq < w.seq
            ORDER BY m.seq DESC LIMIT {_POSTS_PER_MARK}) AS found
        GROUP BY w.seq, w.is_link, found.seq
        HAVING w.is_link = 1 OR count(*) >= {MARKS_IN_COMMON}""",
}
_COMPARED = f"""SELECT seq, id, source_id, coalesce(published_at, created_at),
        substr(body, 1, {COMPARED_CHARACTERS}), story_id, podcast_id
    FROM posts WHERE seq IN :seqs"""
# The post that represents a story has the fullest text, or is the earliest of those (I2). One that
# a filter hides represents none (B2).
_RANK = """(coalesce(length({0}.page_text), length({0}.body)),
    -coalesce({0}.published_at, {0}.created_at), -{0}.seq)"""
_POST_ONCE = f"""NOT EXISTS (SELECT 1 FROM posts o WHERE o.story_id = posts.story_id
    AND o.filtered_by IS NULL AND {_RANK.format("o")} > {_RANK.format("posts")}{{0}})"""
# A condition on waiting posts: none of the story is in an article or waits for its page (T4), and
# none that also waits has a fuller text.
WAITING_ONCE = f""" AND NOT EXISTS (SELECT 1 FROM posts o WHERE o.story_id = posts.story_id
    AND o.id <> posts.id AND (o.is_linked
        OR (o.created_at >= :after OR o.kept_until IS NOT NULL) AND o.filtered_by IS NULL
            AND {_RANK.format("o")} > {_RANK.format("posts")}
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
            WHERE n.article_id = articles.id AND NOT n.is_copy))"""
_read_source = row_reader(ArticleSource, "sources")


@dataclass(slots=True)
class _Candidates:
    """The numbers of earlier posts that may report the same story as a post."""

    same_link: list[int] = field(default_factory=list)
    similar: list[tuple[int, int]] = field(default_factory=list)  # marks in common, number

    @property
    def seqs(self) -> list[int]:
        most = sorted(self.similar, reverse=True)[:_COMPARED_POSTS]
        return self.same_link + [seq for _, seq in most]


def group(session: Session, posts: Sequence[Post]) -> None:
    """Write the marks of new posts, and give those that are copies a story (I1)."""
    sql = "SELECT id, podcast_id, url FROM sources WHERE id IN :ids"
    rows = session.fetch(sql, {"ids": {post.source_id for post in posts}})
    sources = {source: (podcast, url) for source, podcast, url in rows}
    posts = [post for post in posts if post.source_id in sources and post.seq is not None]
    marks = {post.seq: marks_of(*_scope(post, sources), post.body) for post in posts if post.seq}
    _add_marks(session, marks)
    found = _find_candidates(session, marks)
    if not found:
        return
    known = _compared(session, {*found, *(seq for each in found.values() for seq in each.seqs)})
    changed = dict[str, str]()  # story by post
    for seq in sorted(found):
        if seq in known:
            changed |= _assign(known, seq, found[seq])
    _store(session, changed)


def _scope(post: Post, sources: Mapping[str, tuple[str, str]]) -> tuple[str, str, str]:
    podcast_id, source_url = sources[post.source_id]
    return podcast_id, post.url, source_url


def _add_marks(session: Session, marks: Mapping[int, Marks]) -> None:
    rows = [
        {"mark": mark, "seq": seq}
        for seq, each in marks.items()
        for mark in {*each.text, *([] if each.link is None else [each.link])}
    ]
    session.insert_rows("story_marks", rows, "ON CONFLICT DO NOTHING")


def _find_candidates(session: Session, marks: Mapping[int, Marks]) -> dict[int, _Candidates]:
    """Earlier posts with the same link, or with several marks in common, by number."""
    wanted = [(seq, mark, 0) for seq, each in marks.items() for mark in each.text]
    wanted += [(seq, each.link, 1) for seq, each in marks.items() if each.link is not None]
    if not wanted:
        return {}
    params: dict[str, object] = {"wanted": json.dumps(wanted)}
    if session.kind == "postgres":
        params = dict(
            zip(("seqs", "marks", "links"), map(list, zip(*wanted, strict=True)), strict=True)
        )
    found: dict[int, _Candidates] = {}
    for seq, is_link, other, count in session.fetch_unprepared(_CANDIDATES[session.kind], params):
        if is_link:
            found.setdefault(seq, _Candidates()).same_link.append(other)
        else:
            found.setdefault(seq, _Candidates()).similar.append((count, other))
    return found


def _compared(session: Session, seqs: Iterable[int]) -> dict[int, tuple[StoryPost, str]]:
    """Posts with the beginning of their text, and their podcast, by number."""
    rows = session.fetch(_COMPARED, {"seqs": list(seqs)})
    return {
        seq: (StoryPost(seq, id_, source, from_ms(at), text, story), podcast)
        for seq, id_, source, at, text, story, podcast in rows
    }


def _assign(
    known: dict[int, tuple[StoryPost, str]], seq: int, candidates: _Candidates
) -> dict[str, str]:
    """The story of each post that changes it; `known` is updated."""
    post, podcast_id = known[seq]

    def those(seqs: Iterable[int]) -> list[StoryPost]:
        # the hash of another podcast may be the same
        found = (known[other] for other in seqs if other in known)
        return [other for other, podcast in found if podcast == podcast_id]

    match = best_match(post, those(candidates.same_link), those(candidates.seqs))
    if match is None:
        return {}
    story = match.story_id or story_id(match)
    members = [each for each in (match, post) if each.story_id != story]
    for each in members:
        known[each.seq] = replace(each, story_id=story), podcast_id
    return {each.id: story for each in members}


def _store(session: Session, changed: Mapping[str, str]) -> None:
    """Store the stories of posts; these, and the articles of the stories, count as changed (V1)."""
    session.update_rows("posts", [{"id": i, "story_id": changed[i]} for i in sorted(changed)])
    mark_changed(session, "posts", list(changed))
    mark_changed(session, "articles", _articles_of(session, changed.values()))


def _articles_of(session: Session, stories: Iterable[str]) -> list[str]:
    """The articles that were made of posts of these stories."""
    sql = """SELECT DISTINCT l.article_id FROM posts p JOIN post_articles l ON l.post_id = p.id
        WHERE p.story_id IN :stories AND NOT l.is_copy ORDER BY l.article_id"""
    return [row[0] for row in session.fetch(sql, {"stories": set(stories)})]


def story_once(table: str, *, one_source: bool) -> str:
    """A condition on posts or articles: they represent their story (I2).

    In a list of one source a story is represented by a post of this source.
    """
    if table == "articles":
        return _ARTICLE_ONCE
    return _POST_ONCE.format(" AND o.source_id = posts.source_id" if one_source else "")


def with_also_from(session: Session, posts: Sequence[Post]) -> list[Post]:
    """Posts with the other posts of their stories (I2)."""
    members = _members(session, {post.story_id for post in posts if post.story_id is not None})
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
    members = _members(session, {story for *_, story in links if story is not None})
    own, others = dict[str, set[str]](), dict[str, dict[str, AlsoFrom]]()
    for article_id, post_id, story in links:
        own.setdefault(article_id, set()).add(post_id)
        found = {each.post_id: each for each in members.get(story, ())}
        others[article_id] = others.get(article_id, {}) | found
    return {id_: _others(list(found.values()), own[id_]) for id_, found in others.items()}


def _others(members: Sequence[AlsoFrom], own: set[str]) -> tuple[AlsoFrom, ...]:
    return tuple(each for each in members if each.post_id not in own)[:MAX_ALSO_FROM]


def _members(session: Session, stories: set[str]) -> dict[str, list[AlsoFrom]]:
    """The posts of stories, earliest first."""
    if not stories:
        return {}
    sql = """SELECT p.story_id, p.id, p.url, coalesce(p.published_at, p.created_at),
            s.id, coalesce(s.label, s.title), s.type, s.url
        FROM posts p JOIN sources s ON s.id = p.source_id
        WHERE p.story_id IN :stories AND p.filtered_by IS NULL ORDER BY 4, p.seq"""
    members: dict[str, list[AlsoFrom]] = {}
    for story, id_, url, at, *source in session.fetch(sql, {"stories": stories}):
        each = AlsoFrom(id_, _read_source.one(source), url, from_ms(at))
        members.setdefault(story, []).append(each)
    return members


def _undo(session: Session, podcast_id: str, post_id: str) -> bool:
    """Remove a post from its story for good; False: it has none (I3).

    Posts that were linked to an article as copies, of this post or with it, are waiting again.
    """
    sql = """SELECT seq, story_id FROM posts WHERE id = :id AND podcast_id = :podcast FOR UPDATE"""
    rows = session.fetch(sql, {"id": post_id, "podcast": podcast_id})
    if not rows:
        raise NotFound(f"there is no post {post_id}")
    seq, story = rows[0]
    if story is None:
        return False
    session.execute("DELETE FROM story_marks WHERE seq = :seq", {"seq": seq})
    articles = _articles_of(session, [story])
    sql = "SELECT id FROM posts WHERE story_id = :story AND id <> :id ORDER BY id FOR UPDATE"
    others = [row[0] for row in session.fetch(sql, {"story": story, "id": post_id})]
    left = [post_id, *(others if len(others) == 1 else ())]  # one post is no story
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
    sql = f"""SELECT c.id, min(l.article_id) FROM posts c
        JOIN posts m ON m.story_id = c.story_id AND m.id <> c.id
        JOIN post_articles l ON l.post_id = m.id AND NOT l.is_copy
        WHERE c.podcast_id = :podcast AND NOT c.is_linked AND c.story_id IS NOT NULL
            AND c.filtered_by IS NULL
        GROUP BY c.id LIMIT {_COPIES_PER_BATCH}"""
    return dict(session.fetch(sql, {"podcast": podcast_id}))


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
