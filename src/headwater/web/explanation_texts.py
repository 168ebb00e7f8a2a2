"""Steps of an explanation in the words of the dashboard: checks and sites, not polls and lanes."""

from collections.abc import Iterable
from dataclasses import replace

from headwater.rules.explanation import ExplanationStep

_NAMES = {
    "first contact": "first check",
    "last polled": "last check",
    "hold": "pause that the site asked for",
    "next allowed": "pause between two checks of the site",
    "lane": "site",
    "lane position": "queue",
    "in flight": "now",
    "failure storm": "problem of the site",
}
_DETAILS = {"API key": "none; its owner can add one under Accounts"}
# in this order: the longer phrases contain the shorter ones
_PHRASES = (
    ("`headwater enable` starts it again", "Enable starts it again"),
    ("last polled plus the effective interval", "the last check plus the interval"),
    ("the next tick queues it", "then it waits for its turn"),
    ("the next tick spreads first polls", "first checks are spread"),
    ("treated as polled then", "it counts as checked then"),
    ("first contact plus the interval", "that time plus the interval"),
    ("its newest poll", "the newest check"),
    ("the lane's delay", "so that the site gets no burst of requests"),
    ("no host: the null lane", "no site"),
    ("the null lane has none", "it needs no pause"),
    ("the source's own pollDelaySeconds", "its own setting"),
    ("next in its lane", "it is the next one"),
    ("their delays take", "the pauses between them take"),
    ("another source of the lane", "another source of the site"),
    ("in the lanes of their hosts, after polls", "one after another, after the checks"),
    ("the scheduler is paused", "checking is paused"),
    ("the host's fault", "the site's fault"),
    ("of the host", "of the site"),
    ("being polled", "being checked"),
    ("only probes and manual polls run", "only single checks and manual ones run"),
    ("manual polls", "manual checks"),
    ("between polls", "between checks"),
    ("first polls", "first checks"),
    ("a poll", "a check"),
    (" polls", " checks"),
)


def shown_steps(steps: Iterable[ExplanationStep]) -> list[ExplanationStep]:
    """Return the steps as the page of a source shows them; `explain` has the technical terms."""
    return [_shown(step) for step in steps]


def _shown(step: ExplanationStep) -> ExplanationStep:
    detail = _DETAILS.get(step.what, step.detail)
    for technical, plain in _PHRASES:
        detail = detail.replace(technical, plain)
    return replace(step, what=_NAMES.get(step.what, step.what), detail=detail)
