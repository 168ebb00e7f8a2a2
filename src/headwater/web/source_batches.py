"""One thing done to many sources of a list: those that were checked, or all that fit (U2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.errors import NotFound, UsageError
from headwater.operations.batches import Batch, BatchAction
from headwater.operations.sources import RANGES
from headwater.rules.lines import is_one_line
from headwater.store.sources import SourceFilter, Tally
from headwater.web.forms import one
from headwater.web.source_query import ListQuery

INTERVAL = "poll_interval_minutes"
_NONE_CHOSEN = "Check the sources that you mean first, or choose all that match."
# what a page says when it is done, by the action
_NOTICES = {
    BatchAction.ENABLE: "sources-enabled",
    BatchAction.DISABLE: "sources-disabled",
    BatchAction.POLL: "sources-requested",
    BatchAction.UPDATE: "sources-interval",
    BatchAction.DELETE: "sources-deleted",
}


@dataclass(frozen=True, slots=True)
class Wish:
    """What a form asks to be done."""

    action: BatchAction
    ids: Sequence[str]
    is_for_all: bool  # that fit the filter, not only for those checked
    minutes: str
    is_sure: bool

    @property
    def needs_consent(self) -> bool:
        """Whether the person is asked again: nothing brings deleted sources back."""
        return (self.action is BatchAction.DELETE or self.is_for_all) and not self.is_sure


def wish_in(fields: Mapping[str, list[str]], query: ListQuery) -> Wish:
    """What a form asks for, or a UsageError in words for the one who sent it."""
    try:
        action = BatchAction(one(fields, "action"))
    except ValueError as error:
        raise UsageError("Choose what shall be done.", field="action") from error
    is_for_all = one(fields, "scope") == "matching"
    if is_for_all and query.odd:  # a filter that was passed over would mean more than was seen
        raise UsageError("The filter cannot be understood. Set it again.", field="scope")
    ids = fields.get("id", [])
    if not all(is_one_line(id_) for id_ in ids):
        raise NotFound("there is no such source")
    wish = Wish(
        action=action,
        ids=ids,
        is_for_all=is_for_all,
        minutes=one(fields, "minutes"),
        is_sure=one(fields, "sure") == "yes",
    )
    if not is_for_all and not wish.ids:
        raise UsageError(_NONE_CHOSEN, field="ids")
    return wish


def batch_for(wish: Wish, wanted: SourceFilter) -> Batch:
    """The batch that fulfils a wish."""
    changes = None
    if wish.action is BatchAction.UPDATE:
        changes = {INTERVAL: _minutes(wish.minutes)}
    return Batch(
        action=wish.action,
        ids=None if wish.is_for_all else wish.ids,
        wanted=wanted if wish.is_for_all else None,
        changes=changes,
    )


def notice_for(wish: Wish, tally: Tally) -> str:
    """The name of the sentence that says what was done."""
    return _NOTICES[wish.action] if tally.changed else "sources-unchanged"


def _minutes(text: str) -> int:
    least, most = RANGES[INTERVAL]
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
    if number is None or not least <= number <= most:
        told = f"Give the interval in whole minutes, from {least:,} to {most:,}."
        raise UsageError(told, field="minutes")
    return number
