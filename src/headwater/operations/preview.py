"""Preview: fetch a URL and say what would be stored, and why the rest would not."""

from dataclasses import dataclass, replace
from datetime import datetime

from headwater.errors import NotAFeed
from headwater.fetch.fetcher import Fetcher
from headwater.fetch.parsers import Parsers
from headwater.fetch.response import Response, check_status
from headwater.model import Answer, Entry, Podcast, SkipReason, Source, SourceType, Subject
from headwater.operations.sources import SourceSettings, new_source, type_of_url
from headwater.rules.admission import Known, admit, sift
from headwater.rules.policy import Policy


@dataclass(frozen=True, slots=True)
class Preview:
    """What a first poll of a source would bring."""

    source: Source
    status: int | None
    redirected_to: str | None
    complete: bool
    verdicts: tuple[tuple[Entry, SkipReason | None], ...]

    @property
    def admitted(self) -> tuple[Entry, ...]:
        """The entries that would become posts."""
        return tuple(entry for entry, reason in self.verdicts if reason is None)


async def preview(
    fetcher: Fetcher,
    parsers: Parsers,
    wanted: SourceSettings,
    *,
    user_id: str,
    key: str | None,
    now: datetime,
    policy: Policy,
    podcast: Podcast | None = None,
) -> Preview:
    """Visit a URL as a first poll for this podcast would, and store nothing."""
    source = new_source("preview", wanted, now)
    own_days = None if podcast is None else podcast.max_article_age_days
    subject = Subject(source, user_id, max_article_age_days=own_days)
    if wanted.type is not None or type_of_url(source.url) is not None:
        answer = await fetcher(subject, key, turns=None, now=now)
        return _judged(subject, answer, now, policy)
    response, type_ = await _document_and_type(fetcher, parsers, source, now)
    subject = replace(subject, source=replace(source, type=type_))
    return _judged(subject, await fetcher.answer(subject.source, response), now, policy)


async def detect_type(
    fetcher: Fetcher, parsers: Parsers, source: Source, now: datetime
) -> SourceType:
    """What a URL is by what it answers: a feed, else a page; X goes by the URL alone."""
    by_url = type_of_url(source.url)
    if by_url is not None:
        return by_url
    return (await _document_and_type(fetcher, parsers, source, now))[1]


async def _document_and_type(
    fetcher: Fetcher, parsers: Parsers, source: Source, now: datetime
) -> tuple[Response, SourceType]:
    response = await fetcher.document(source, turns=None)
    check_status(response, now=now)
    try:
        await parsers.feed(response.body, content_type=response.content_type, url=str(response.url))
    except NotAFeed:
        return response, SourceType.WEBSITE
    return response, SourceType.RSS


def _judged(subject: Subject, answer: Answer, now: datetime, policy: Policy) -> Preview:
    sifted = sift(subject.source, answer.entries, now, policy)
    admission = admit(subject, sifted, Known(), now, policy)
    return Preview(
        source=subject.source,
        status=answer.status,
        redirected_to=answer.redirected_to,
        complete=answer.complete,
        verdicts=admission.verdicts,
    )
