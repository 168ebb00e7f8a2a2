"""Groups posts: those of a podcast that report the same in the same words share a `story_id` (I1).

A follower writes the marks of every post to `story_marks` and looks up other posts with the same
ones. Once the page of a post was read (T4), it does that again with the text of the page.
A post whose story was undone by hand has no marks any more: nothing is grouped with it again.
Marks are not part of backups: a restored post is not compared with later ones.

Feeds that are written from a template have hundreds of posts with the same marks. Whatever is read
or prepared of a post, that is done once per batch, and a post is compared with a few others only.
"""

import json
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain, islice

from headwater.model import Post, SourceType
from headwater.rules.stories import (
    COMPARED_CHARACTERS,
    MARKS_IN_COMMON,
    WINDOW,
    ComparedText,
    Marks,
    StoryPost,
    best_match,
    is_within_window,
    marks_of,
    story_id,
)
from headwater.store.database import Session
from headwater.store.followers import recent_posts, stored_posts
from headwater.store.numbered_rows import NumberedPage, NumberRange
from headwater.store.row_mapping import from_ms
from headwater.store.sequence_numbers import mark_changed
from headwater.store.stories import articles_of

_POSTS_PER_MARK = 50  # the newest with a mark; more have it if it is part of boilerplate
_COMPARED_POSTS = 8  # with which one post is compared by text
# Posts by mark. One index range per mark: the LIMIT is inside of the loop.
_EARLIER = {
    "sqlite": f"""SELECT w.value, (SELECT json_group_array(seq) FROM (SELECT seq FROM story_marks m
            WHERE m.mark = w.value ORDER BY m.seq DESC LIMIT {_POSTS_PER_MARK}))
        FROM json_each(:marks) AS w""",
    "postgres": f"""SELECT w.mark, ARRAY(SELECT m.seq FROM story_marks m
            WHERE m.mark = w.mark ORDER BY m.seq DESC LIMIT {_POSTS_PER_MARK})
        FROM unnest(CAST(:marks AS BIGINT[])) AS w (mark)""",
}
_PLACES = """SELECT seq, id, source_id, podcast_id, coalesce(published_at, created_at), story_id
    FROM posts WHERE seq IN :seqs"""
_TEXTS = f"""SELECT p.seq, substr(CASE WHEN s.type = '{SourceType.WEBSITE.value}' THEN p.body
        ELSE coalesce(p.page_text, p.body) END, 1, {COMPARED_CHARACTERS})
    FROM posts p LEFT JOIN sources s ON s.id = p.source_id WHERE p.seq IN :seqs"""
_CHANGES_PER_BATCH = 5000  # that are looked through; few of them are pages that were read
_LAST_CHANGE = f"""SELECT changed_seq FROM posts
    WHERE changed_seq > :after AND changed_seq <= :until
    ORDER BY changed_seq LIMIT 1 OFFSET {_CHANGES_PER_BATCH - 1}"""
_HAS_PAGE_AND_MARKS = """ AND page_text IS NOT NULL
    AND EXISTS (SELECT 1 FROM story_marks m WHERE m.seq = posts.seq)"""
_TAKEN = """WITH given (story_id, source_id) AS ({0})
    SELECT given.story_id, given.source_id FROM given WHERE EXISTS (SELECT 1 FROM posts p
        WHERE p.story_id = given.story_id AND p.source_id = given.source_id)"""


@dataclass(frozen=True, slots=True)
class _Source:
    """What marks and texts of posts depend on."""

    podcast_id: str
    url: str
    type: str

    def text_of(self, post: Post) -> str:
        """The text that is compared: that of the page behind a link, once it was read (T4)."""
        if post.page_text is None or self.type == SourceType.WEBSITE.value:
            return post.body
        return post.page_text


@dataclass(frozen=True, slots=True)
class _Place:
    """What decides whether a post is compared by text."""

    id: str
    source_id: str
    podcast_id: str
    at: datetime
    story_id: str | None

    def is_near(self, other: "_Place") -> bool:
        # the hash of another podcast may be the same
        return self.podcast_id == other.podcast_id and is_within_window(self.at, other.at)


@dataclass(slots=True)
class _Candidates:
    """The numbers of posts grouped before that may report the same story as a post."""

    same_link: list[int] = field(default_factory=list)
    similar: list[int] = field(default_factory=list)  # most marks in common first, then newest

    @property
    def seqs(self) -> list[int]:
        return self.same_link + self.similar


def posts_to_group(session: Session, wanted: NumberRange, limit: int) -> NumberedPage[Post]:
    """The next new posts, and those of the same numbers whose text is that of their page now.

    Both have one cursor: a post is grouped before its page, or once with the text of its page.
    """
    new = recent_posts(session, wanted, limit, window=WINDOW)
    read = _read_since(session, replace(wanted, until=new.next_after), limit)
    last = min(new.next_after, read.next_after)
    posts = {post.id: post for post in new.items if post.seq is not None and post.seq <= last}
    posts |= {post.id: post for post in read.items}
    return NumberedPage(tuple(posts.values()), last, new.more or read.more)


def _read_since(session: Session, wanted: NumberRange, limit: int) -> NumberedPage[Post]:
    """The next posts that have marks, and a page that was read or another change since."""
    ends = session.fetch(_LAST_CHANGE, {"after": wanted.after, "until": wanted.until})
    until = ends[0][0] if ends else wanted.until
    page = stored_posts(
        session,
        replace(wanted, until=until, column="changed_seq", condition=_HAS_PAGE_AND_MARKS),
        limit,
    )
    return replace(page, more=page.more or until < wanted.until)


def group(session: Session, posts: Sequence[Post]) -> None:
    """Write the marks of posts, and give those that are copies and have no story one (I1)."""
    sql = "SELECT id, podcast_id, url, type FROM sources WHERE id IN :ids"
    rows = session.fetch(sql, {"ids": {post.source_id for post in posts}})
    sources = {source: _Source(*others) for source, *others in rows}
    texts, marks = dict[int, str](), dict[int, Marks]()
    for post in posts:
        source = sources.get(post.source_id)
        if source is not None and post.seq is not None:  # else it is being deleted
            text = texts[post.seq] = source.text_of(post)
            marks[post.seq] = marks_of(source.podcast_id, post.url, source.url, text)
    # those of the texts before the pages were read
    session.execute("DELETE FROM story_marks WHERE seq IN :seqs", {"seqs": list(marks)})
    found = _find_candidates(session, marks)
    _add_marks(session, marks)
    if found:
        _store(session, _Batch(session, found, texts).stories())


def _all_marks(marks: Marks) -> set[int]:
    return {*marks.text, *(() if marks.link is None else (marks.link,))}


def _add_marks(session: Session, marks: Mapping[int, Marks]) -> None:
    rows = [{"mark": mark, "seq": seq} for seq, own in marks.items() for mark in _all_marks(own)]
    session.insert_rows("story_marks", rows, "ON CONFLICT DO NOTHING")


def _find_candidates(session: Session, marks: Mapping[int, Marks]) -> dict[int, _Candidates]:
    """Posts grouped before with the same link, or several marks in common, by number."""
    earlier = _earlier_posts(session, marks)
    found: dict[int, _Candidates] = {}
    for seq, own in sorted(marks.items()):
        with_marks = (earlier.get(mark, ()) for mark in own.text)
        counts = Counter(chain.from_iterable(with_marks))
        similar = [(n, other) for other, n in counts.items() if n >= MARKS_IN_COMMON]
        same_link = earlier.get(own.link, ()) if own.link is not None else ()
        if similar or same_link:
            most = [other for _, other in sorted(similar, reverse=True)]
            found[seq] = _Candidates(list(same_link), most)
        for mark in _all_marks(own):
            earlier.setdefault(mark, deque(maxlen=_POSTS_PER_MARK)).append(seq)
    return found


def _earlier_posts(session: Session, marks: Mapping[int, Marks]) -> dict[int, deque[int]]:
    """The newest posts that are not of this batch with each of its marks, newest last."""
    wanted = {mark for own in marks.values() for mark in _all_marks(own)}
    if not wanted:
        return {}
    is_sqlite = session.kind == "sqlite"
    params = {"marks": json.dumps(list(wanted)) if is_sqlite else list(wanted)}
    rows = session.fetch_unprepared(_EARLIER[session.kind], params)
    return {
        mark: deque(reversed(json.loads(seqs) if is_sqlite else seqs), _POSTS_PER_MARK)
        for mark, seqs in rows
        if seqs not in ("[]", [])
    }


class _Batch:
    """The posts of a batch and their candidates, each of them read and prepared once."""

    def __init__(
        self, session: Session, found: Mapping[int, _Candidates], texts: Mapping[int, str]
    ) -> None:
        self._places = _places(
            session, {*found, *(s for each in found.values() for s in each.seqs)}
        )
        self._found = {
            seq: self._chosen(seq, candidates)
            for seq, candidates in sorted(found.items())
            if seq in self._places and self._places[seq].story_id is None  # or it was deleted
        }
        compared = {*self._found, *(s for each in self._found.values() for s in each.seqs)}
        self._texts = _prepared(session, compared, texts)
        self._session = session
        self._looked_up: set[tuple[str, str]] = set()  # stories and sources
        self._taken: dict[str, set[str]] = {}  # by source: stories that have a post of it
        self._look_up_taken(self._found.items())

    def stories(self) -> dict[str, str]:
        """The story of each post that changes it."""
        changed: dict[str, str] = {}
        for seq, candidates in self._found.items():
            changed |= self._assign(seq, candidates)
        return changed

    def _chosen(self, seq: int, candidates: _Candidates) -> _Candidates:
        """Those that can be of the same story; by text, the first few of other sources."""
        own, known = self._places[seq], self._places
        same_link = (each for each in candidates.same_link if each in known)
        similar = (
            each
            for each in candidates.similar
            if each in known and known[each].source_id != own.source_id and known[each].is_near(own)
        )
        return _Candidates(
            [each for each in same_link if known[each].is_near(own)],
            list(islice(similar, _COMPARED_POSTS)),
        )

    def _look_up_taken(self, found: Iterable[tuple[int, _Candidates]]) -> None:
        """Find the stories of candidates that have a post of the source that may join them."""
        pairs = {
            (story, self._places[seq].source_id)
            for seq, candidates in found
            for other in candidates.similar
            if (story := self._places[other].story_id) is not None
        }
        new = sorted(pairs - self._looked_up)
        self._looked_up |= pairs
        rows = [{"story_id": story, "source_id": source} for story, source in new]
        for given, values in self._session.given("posts", rows):
            for story, source in self._session.run(_TAKEN.format(given), values).fetchall():
                self._taken.setdefault(source, set()).add(story)

    def _assign(self, seq: int, candidates: _Candidates) -> dict[str, str]:
        self._look_up_taken([(seq, candidates)])  # a candidate may have joined a story since
        post = self._post(seq)
        match = best_match(
            post,
            [self._post(other) for other in candidates.same_link],
            [self._post(other) for other in candidates.similar],
            self._taken.get(post.source_id, ()),
        )
        if match is None:
            return {}
        story = match.story_id or story_id(match)
        members = [each for each in (match, post) if each.story_id != story]
        for each in members:
            self._places[each.seq] = replace(self._places[each.seq], story_id=story)
            self._taken.setdefault(each.source_id, set()).add(story)
        return {each.id: story for each in members}

    def _post(self, seq: int) -> StoryPost:
        place, text = self._places[seq], self._texts[seq]
        return StoryPost(seq, place.id, place.source_id, place.at, text, place.story_id)


def _places(session: Session, seqs: Iterable[int]) -> dict[int, _Place]:
    return {
        seq: _Place(id_, source, podcast, from_ms(at), story)
        for seq, id_, source, podcast, at, story in session.fetch(_PLACES, {"seqs": list(seqs)})
    }


def _prepared(
    session: Session, seqs: Iterable[int], texts: Mapping[int, str]
) -> dict[int, ComparedText]:
    """The texts of posts by number; those of the batch are read already."""
    wanted = set(seqs)
    rows = session.fetch(_TEXTS, {"seqs": [seq for seq in wanted if seq not in texts]})
    prepared = {seq: ComparedText.of(text) for seq, text in rows}
    return prepared | {seq: ComparedText.of(texts[seq]) for seq in wanted if seq in texts}


def _store(session: Session, changed: Mapping[str, str]) -> None:
    """Store the stories of posts; these, and the articles of the stories, count as changed (V1)."""
    session.update_rows("posts", [{"id": i, "story_id": changed[i]} for i in sorted(changed)])
    mark_changed(session, "posts", list(changed))
    mark_changed(session, "articles", articles_of(session, changed.values()))
