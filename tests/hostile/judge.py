"""Whether what came of a row is what must come of it."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.hostile.run import Result
from tests.hostile.table import Either, Fact, Failed, Misbehaviour, Outcome, Stored, Unchanged


def faults(row: Misbehaviour, result: Result, *, machine_late: float) -> list[str]:
    """What is wrong, in words; nothing where all is right.

    A machine on which threads wait for a processor is given as much more time.
    """
    if not result.created:
        return [f"the source was refused: {result.source}"]
    return [
        *_outcome_faults(row, result),
        *_post_faults(row, result),
        *_cost_faults(row, result, row.seconds * (1 + machine_late)),
    ]


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
        yield f"a secret is told: {shown}"
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


def _cost_faults(row: Misbehaviour, result: Result, seconds: float) -> Iterator[str]:
    if row.sight is not None and (result.sight is None or not row.sight(result.sight)):
        yield f"its host saw what it should not, or not what it should: {result.sight}"
    if result.grown is None:  # in a crowd others cost time and memory, too
        return
    if max(result.seconds) > seconds:
        yield f"took {max(result.seconds):.1f} s instead of {seconds:.1f} s at most"
    if result.grown.tree > row.megabytes:
        yield f"took {result.grown} instead of {row.megabytes} MB at most"
