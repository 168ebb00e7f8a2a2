"""Notices: messages for people about incidents, composed of stored events (Y3)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Any
from urllib.parse import quote

from headwater.rules.webhook_messages import message_id, payload

TEST_EVENT = "notice.test"
DIGEST_EVENT = "incident.digest"
_MAX_SUBJECT = 120  # characters
_MAX_LISTED = 50  # incidents in one message
_IN_DIGEST = ("id", "kind", "severity", "title", "host", "openedAt", "closedAt")
_FOOTER = "The overview of the dashboard and headwater status show what is wrong now."


@dataclass(frozen=True, slots=True)
class Notice:
    """A message for people, in the forms that channels need."""

    id: str  # the same whenever the same events are sent
    subject: str
    text: str
    html: str
    payload: str  # for webhooks
    link: str | None = None  # to the dashboard
    is_quiet: bool = False  # shown without a sound, where that is possible
    is_good: bool = False  # nothing to do: only problems that are over


@dataclass(frozen=True, slots=True)
class _Item:
    title: str
    lines: tuple[str, ...]
    link: str | None = None


_Section = tuple[str, Sequence[_Item]]  # with its heading


def notice_of(
    channel_id: str, messages: Mapping[str, str], at: datetime, *, dashboard: str | None = None
) -> Notice:
    """One message about events, given as stored payloads by id, in order.

    A problem whose beginning and end are both reported is listed once, as resolved. `dashboard` is
    the address of the dashboard: each problem has a link to it.
    """
    incidents = [json.loads(text)["data"] for text in messages.values()]
    latest = {one["id"]: one for one in incidents}.values()  # the end follows the beginning
    problems = [_problem(one, dashboard) for one in latest if one["closedAt"] is None]
    resolved = [_resolved(one) for one in latest if one["closedAt"] is not None]
    sections = [("Problems", problems), ("Resolved", resolved)]
    return Notice(
        id=_id(channel_id, list(messages)),
        subject=_subject(problems, resolved),
        text=_text(sections, dashboard),
        html=_html(sections, dashboard),
        payload=_payload(list(latest), list(messages.values()), at),
        link=problems[0].link if len(problems) == 1 else _overview(dashboard),
        is_good=not problems,
    )


def sample_notice(
    channel_id: str, subject: str, at: datetime, *, dashboard: str | None = None
) -> Notice:
    """A message that shows that a channel works."""
    says = "This is a test. Messages about problems with your sources arrive like this one."
    link = _overview(dashboard)
    return Notice(
        id=message_id(channel_id, TEST_EVENT, subject),
        subject="Headwater: test message",
        text=f"{says}\n" if link is None else f"{says}\n\n{link}\n",
        html=_page(f"<p>{escape(says)}</p>" + _anchor(link, "The overview of the dashboard")),
        payload=payload(TEST_EVENT, at, {"channelId": channel_id}),
        link=link,
        is_quiet=True,
        is_good=True,
    )


def _id(channel_id: str, ids: Sequence[str]) -> str:
    return ids[0] if len(ids) == 1 else message_id(channel_id, DIGEST_EVENT, " ".join(ids))


def _payload(incidents: Sequence[Mapping[str, Any]], texts: Sequence[str], at: datetime) -> str:
    """The message of a single event as webhooks have it, several as a digest."""
    if len(texts) == 1:
        return texts[0]
    listed = [{name: one[name] for name in _IN_DIGEST} for one in incidents[:_MAX_LISTED]]
    return payload(DIGEST_EVENT, at, {"incidents": listed})


def _problem(incident: Mapping[str, Any], dashboard: str | None) -> _Item:
    reported = f"Reported {_minute(incident['openedAt'])}."
    link = None if dashboard is None else incident_link(dashboard, incident["id"])
    return _Item(_one_line(incident["title"]), (_one_line(incident["advice"]), reported), link)


def incident_link(dashboard: str, incident_id: str) -> str:
    """The address of an incident on the overview of a dashboard."""
    return f"{dashboard}/#incident-{quote(incident_id)}"


def _overview(dashboard: str | None) -> str | None:
    return None if dashboard is None else f"{dashboard}/"


def _resolved(incident: Mapping[str, Any]) -> _Item:
    reported, over = _minute(incident["openedAt"]), _minute(incident["closedAt"])
    return _Item(_one_line(incident["title"]), (f"Reported {reported}, over since {over}.",))


def _minute(text: str) -> str:
    """A time as people read it: 2026-02-16 08:00 UTC."""
    return f"{text[:10]} {text[11:16]} UTC"


def _subject(problems: Sequence[_Item], resolved: Sequence[_Item]) -> str:
    match len(problems), len(resolved):
        case 1, 0:
            text = problems[0].title
        case 0, 1:
            text = f"resolved: {resolved[0].title}"
        case some, 0:
            text = f"{some} problems"
        case 0, some:
            text = f"{some} problems resolved"
        case some, others:
            text = f"{some} problem{'' if some == 1 else 's'}, {others} resolved"
    text = f"Headwater: {text.removeprefix('Headwater ')}"
    return text if len(text) <= _MAX_SUBJECT else text[: _MAX_SUBJECT - 1] + "…"


def _text(sections: Sequence[_Section], dashboard: str | None) -> str:
    blocks: list[str] = []
    for heading, items in sections:
        if items:
            blocks.append(f"{heading}:")
            blocks += [
                "\n  ".join([f"- {item.title}", *item.lines, *([item.link] if item.link else [])])
                for item in items[:_MAX_LISTED]
            ]
            blocks.append(_more(items))
    blocks += [_FOOTER if dashboard is None else f"{_FOOTER}\n{_overview(dashboard)}"]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _html(sections: Sequence[_Section], dashboard: str | None) -> str:
    parts: list[str] = []
    for heading, items in sections:
        if items:
            listed = "".join(
                f"<li><b>{escape(item.title)}</b><br>{'<br>'.join(map(escape, item.lines))}"
                f"{_anchor(item.link, 'Open it on the dashboard')}</li>"
                for item in items[:_MAX_LISTED]
            )
            parts.append(f"<h2>{heading}</h2><ul>{listed}</ul>")
            parts.append(f"<p>{_more(items)}</p>" if _more(items) else "")
    link = _anchor(_overview(dashboard), "Open the dashboard")
    return _page("".join(parts) + f"<p>{escape(_FOOTER)}{link}</p>")


def _anchor(link: str | None, text: str) -> str:
    return "" if link is None else f'<br><a href="{escape(link)}">{escape(text)}</a>'


def _more(items: Sequence[_Item]) -> str:
    left = len(items) - _MAX_LISTED
    return f"And {left} more." if left > 0 else ""


def _page(content: str) -> str:
    return (
        f'<!DOCTYPE html><html><head><meta charset="utf-8"></head><body>{content}</body></html>\n'
    )


def _one_line(text: str) -> str:
    """Text from outside without control characters, which a header must not contain (M6, U7)."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
