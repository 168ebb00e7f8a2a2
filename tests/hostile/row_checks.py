"""Compares the result of a row of the hostile table with its expectation."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.hostile.matrix_run import Result, is_over_its_time
from tests.hostile.table import (
    Either,
    Fact,
    Failed,
    Misbehaviour,
    Outcome,
    Rejected,
    Stored,
    Unchanged,
)

_HALF_A_BUDGET = 5.0  # seconds
_SERVICE_MEGABYTES = 150  # maximum growth of the service itself by one source (H1)


def faults(row: Misbehaviour, result: Result) -> list[str]:
    """Descriptions of all deviations; empty if there is none.

    Every poll has the time that its row allows, from request to stored, plus the time that threads
    of the service or a parser waited for a processor, but at most twice the allowed time: a missing
    limit is found even on a busy machine. A parser has 10 s by the clock (H2). If it waited for a
    processor for half of them each time, stopping it was right and the row cannot be checked.
    """
    if not result.created:
        return list(_rejection_faults(row, result))
    if is_excused(result):
        return list(_cost_faults(row, result))
    return [
        *_outcome_faults(row, result),
        *_post_faults(row, result),
        *_cost_faults(row, result),
    ]


def flood_faults(row: Misbehaviour, result: Result) -> list[str]:
    """Deviations of one of many concurrent rows: their memory is checked together."""
    if not result.created:
        return list(_rejection_faults(row, result))
    if is_excused(result):
        return []
    return [*_outcome_faults(row, result), *_post_faults(row, result)]


def _rejection_faults(row: Misbehaviour, result: Result) -> Iterator[str]:
    if row.outcomes != (Rejected(),) or result.source.get("status") != 422:
        yield f"the source was refused: {result.source}"
    if any(secret in str(result.source) for secret in row.secrets):
        yield f"a secret was revealed: {result.source}"


def is_excused(result: Result) -> bool:
    """Whether a stopped parser would have been in time on an idle machine."""
    stopped = bool(result.outcomes) and is_over_its_time(result.outcomes[0])
    return stopped and result.costs[-1].parser_starved > _HALF_A_BUDGET


def _outcome_faults(row: Misbehaviour, result: Result) -> Iterator[str]:
    if len(result.outcomes) != len(row.outcomes):
        yield f"{len(result.outcomes)} polls instead of {len(row.outcomes)}"
    for number, (wanted, got) in enumerate(zip(row.outcomes, result.outcomes, strict=False), 1):
        if not _is_met(wanted, got):
            yield f"poll {number} should be {wanted}, but is {got}"
    shown = "\n".join(
        str([o.get("error"), o.get("redirectedTo")]) for o in [*result.outcomes, *result.history]
    )
    shown += f"{result.source.get('lastError')} {result.source.get('disabledReason')}"
    if any(secret in shown for secret in row.secrets):
        yield f"a secret was revealed: {shown}"
    if row.secrets and (not result.previewed or any(s in result.previewed for s in row.secrets)):
        yield f"a preview reveals a secret, or is empty: {result.previewed}"
    if "\\n" in shown or not shown.replace("\n", "").isprintable():
        yield f"an error is not one printable line: {shown!r}"


def _is_met(wanted: Outcome, got: Mapping[str, Any]) -> bool:
    match wanted:
        case Failed():
            return (
                got.get("outcome") == "failed"
                and got["failureKind"] in wanted.kind.split("|")
                and got["failureType"] == wanted.type
                and wanted.says in got["error"]
            )
        case Stored():
            return got.get("outcome") == "stored" and got["newPosts"] == wanted.posts
        case Either():
            return _is_met(wanted.stored, got) or _is_met(wanted.failed, got)
        case Unchanged():
            return got.get("outcome") == "unchanged" and got["status"] == wanted.status
        case Rejected():
            return False  # it was added


def _post_faults(row: Misbehaviour, result: Result) -> Iterator[str]:
    chosen = [
        (wanted.stored if got.get("outcome") == "stored" else wanted.failed)
        if isinstance(wanted, Either)
        else wanted
        for wanted, got in zip(row.outcomes, result.outcomes, strict=False)
    ]
    stored = [outcome for outcome in chosen if isinstance(outcome, Stored)]
    total = sum(outcome.posts for outcome in stored)
    if result.source.get("postCount") != total:
        yield f"{result.source.get('postCount')} posts are there instead of {total}"
    for facts in (facts for outcome in stored for facts in outcome.having):
        if not any(_has(post, facts) for post in result.posts):
            shown = [{name: str(post[name])[:200] for name in facts} for post in result.posts[:5]]
            yield f"no post has {facts}: {shown}"


def _has(post: Mapping[str, Any], facts: Mapping[str, Fact]) -> bool:
    return all(
        fact(post[name]) if callable(fact) else post[name] == fact for name, fact in facts.items()
    )


def _cost_faults(row: Misbehaviour, result: Result) -> Iterator[str]:
    if row.sight is not None and (result.sight is None or not row.sight(result.sight)):
        yield f"its host saw what it should not, or not what it should: {result.sight}"
    if len(result.costs) < len(row.outcomes):
        yield "its cost was not measured"
    for cost in result.costs:
        allowed = row.seconds + min(cost.starved, row.seconds)
        if cost.seconds > allowed:
            yield f"took {cost.seconds:.1f} s instead of {allowed:.1f} s at most"
    if result.grown.own > _SERVICE_MEGABYTES:
        yield f"the service grew by {result.grown.own:.0f} MB"
    if result.grown.tree > row.megabytes:
        yield f"took {result.grown} instead of {row.megabytes} MB at most"
