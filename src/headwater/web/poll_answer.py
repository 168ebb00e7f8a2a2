"""What came of a poll that somebody asked for on a page, in words."""

from dataclasses import dataclass

from headwater.model import OutcomeKind
from headwater.operations.polling import PollReport
from headwater.web.poll_history import duration, posts, skips

_ON_HOLD = "on hold"


@dataclass(frozen=True, slots=True)
class PollAnswer:
    """The outcome twice: whole for a script, and as a notice for a page that is loaded anew."""

    tone: str  # good, warn, bad
    text: str
    notice: str
    number: int | None = None


def answer_of(report: PollReport | None) -> PollAnswer:
    """An outcome in words; None: the poll waits for its host's turn and will be made (P10)."""
    if report is None:
        return PollAnswer(
            "warn",
            "The poll waits for its host's turn and is made as soon as that comes.",
            "poll-waits",
        )
    if report.outcome is OutcomeKind.FAILED:
        return _failed(report)
    took = f" It took {duration(report.duration_ms)}."
    passed = skips(report.skipped)
    left_out = f" Not stored: {passed}." if passed else ""
    if report.outcome is OutcomeKind.STORED:
        notice = "polled-one" if report.new_posts == 1 else "polled-stored"
        text = f"Polled: {posts(report.new_posts)}.{left_out}{took}"
        return PollAnswer("good", text, notice, report.new_posts)
    text = f"Polled: nothing new.{left_out}{took}"
    skipped = sum(report.skipped.values())
    if skipped:
        return PollAnswer("good", text, "polled-skipped", skipped)
    return PollAnswer("good", text, "polled-unchanged")


def _failed(report: PollReport) -> PollAnswer:
    error = report.error or "nobody knows why"
    if report.status is None and error.startswith(_ON_HOLD):
        text = f"Nothing was sent: the host is {error}."
        return PollAnswer("warn", text, "poll-held")
    return PollAnswer("bad", f"The poll failed: {error}", "polled-failed")
