"""What a look at the running program or its surroundings finds."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    NOTE = "note"  # worth knowing, nothing is broken
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at, and what to do about it."""

    name: str
    verdict: Verdict
    detail: str
    advice: str | None = None
    cause: str | None = None  # in the words of a database or the system: not for everybody


def fine(name: str, detail: str) -> Check:
    """Nothing to do."""
    return Check(name, Verdict.OK, detail)


def note(name: str, detail: str, advice: str | None = None) -> Check:
    """Somebody may want to look at this."""
    return Check(name, Verdict.NOTE, detail, advice)


def wrong(name: str, detail: str, advice: str | None = None, *, cause: str | None = None) -> Check:
    """This must be mended."""
    return Check(name, Verdict.WRONG, detail, advice, cause)
