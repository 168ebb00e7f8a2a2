"""Preview: fetch a URL and say what would be stored, and why the rest would not."""

from dataclasses import dataclass, replace
from datetime import datetime

from headwater.clock import Clock
from headwater.errors import NotAFeed
from headwater.fetch.fetcher import Fetcher
from headwater.fetch.parsers import Parsers
from headwater.fetch.response import Response, check_status
from headwater.model import Answer, Entry, Podcast, SkipReason, Source, SourceType, Subject
from headwater.operations.sources import SourceSettings, new_source, type_of_url
from headwater.operations.turns import StoredTurns
from headwater.rules.admission import Known, admit, sift
from headwater.rules.policy import Policy
from headwater.rules.politeness import host_of, lane_of
from headwater.store import Store


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


@dataclass(frozen=True, slots=True)
class Previewer:
    """Visits URLs without storing what they bring; hosts' turns are respected all the same."""

    fetcher: Fetcher
    parsers: Parsers
    store: Store
    clock: Clock
    policy: Policy

    async def preview(
        self, wanted: SourceSettings, podcast: Podcast, *, key: str | None = None
    ) -> Preview:
        """Visit a URL as a first poll for this podcast would."""
        now = self.clock.now()
        source = new_source("preview", wanted, now)
        own_days = podcast.max_article_age_days
        subject = Subject(source, podcast.user_id, max_article_age_days=own_days)
        turns = StoredTurns(self.store, self.clock, self.policy, source)
        async with turns.at_home(lane_of(source, podcast.user_id)):
            if wanted.type is not None or type_of_url(source.url) is not None:
                answer = await self.fetcher(subject, key, turns=turns, now=now)
                return _judged(subject, answer, now, self.policy)
            response, type_ = await self._document_and_type(source, turns)
        subject = replace(subject, source=replace(source, type=type_))
        answer = await self.fetcher.answer(subject.source, response)
        return _judged(subject, answer, now, self.policy)

    async def type_of(self, source: Source) -> SourceType:
        """What a URL is by what it answers: a feed, else a page; X goes by the URL alone."""
        by_url = type_of_url(source.url)
        if by_url is not None:
            return by_url
        turns = StoredTurns(self.store, self.clock, self.policy, source)
        async with turns.at_home(host_of(source)):
            return (await self._document_and_type(source, turns))[1]

    async def _document_and_type(
        self, source: Source, turns: StoredTurns
    ) -> tuple[Response, SourceType]:
        response = await self.fetcher.document(source, turns=turns)
        check_status(response, now=self.clock.now())
        try:
            await self.parsers.feed(
                response.body, content_type=response.content_type, url=str(response.url)
            )
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
