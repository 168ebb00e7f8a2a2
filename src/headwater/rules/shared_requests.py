"""Shared requests: sources with the same address that are due together are fetched once (Y7)."""

from collections.abc import Sequence

from headwater.model import Answer, Source, Subject, Validators, changed
from headwater.rules.policy import Policy
from headwater.rules.politeness import poll_delay


def may_share(one: Source, other: Source) -> bool:
    """Whether one response serves both: the same document, parsed in the same way."""
    return (one.type, one.url, one.watch) == (other.type, other.url, other.watch)


def longest_delay(subjects: Sequence[Subject], policy: Policy) -> Source:
    """The source whose delay their lane keeps after a shared request (P2)."""
    if len(subjects) == 1:  # nearly every poll
        return subjects[0].source
    return max((subject.source for subject in subjects), key=lambda one: poll_delay(one, policy))


def shared_request(subjects: Sequence[Subject]) -> Subject:
    """The source whose request serves all: conditional only if all have the same validators.

    A 304 says nothing about a source that has stored another version, or none. If they have seen
    different entries, the response is parsed as for a source that has seen none.
    """
    lead = subjects[0]
    if len(subjects) == 1:
        return lead
    changes: dict[str, object] = {}
    if len({(one.source.validators, one.source.body_hash) for one in subjects}) > 1:
        changes |= {"validators": Validators(), "body_hash": None}
    if len({(one.source.last_seen_id, one.source.late_entry_hours) for one in subjects}) > 1:
        changes["last_seen_id"] = None
    return changed(lead, {"source": changed(lead.source, changes)}) if changes else lead


def answer_for(source: Source, answer: Answer) -> Answer:
    """A shared answer as this source alone would have received it: unchanged if it knows it."""
    if answer.unchanged or answer.body_hash is None or answer.body_hash != source.body_hash:
        return answer
    return changed(answer, {"unchanged": True, "entries": (), "complete": True, "title": None})
