"""MessageChecks: what receivers of messages get, and how often (V2, Y3)."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.simulation.checker_state import CheckerState

if TYPE_CHECKING:
    from headwater.store.webhooks import WebhookDelivery

_GRACE_SECONDS = 5.0
_MAX_PAUSE_SECONDS = 300.0  # of a receiver after failures
_ATTEMPTS = 10  # after which a message is given up
_MOST_LISTED = 50  # incidents in a message
_DIGEST = "incident.digest"
_OPENED, _CLOSED = "incident.opened", "incident.closed"
_Key = tuple[str, str]  # event and subject


@dataclass(slots=True)
class MessageRecord:
    """A stored message."""

    id: str
    key: _Key
    due: datetime  # by the wall clock
    stored_at: float
    failures: int = 0  # attempts to send it
    is_received: bool = False
    is_delivered: bool = False  # which was stored


class ReceivedMessage(NamedTuple):
    """A message as it arrived."""

    id: str
    keys: tuple[_Key, ...]


@dataclass(slots=True)
class ReceiverRecord:
    """What a receiver is to get, and has got."""

    messages: dict[_Key, MessageRecord] = field(default_factory=dict)
    by_id: dict[str, MessageRecord] = field(default_factory=dict)
    waiting: dict[_Key, MessageRecord] = field(default_factory=dict)  # in order
    failed_at: float = float("-inf")


class MessageChecks:
    """Compares stored messages with those that arrive."""

    def __init__(self, state: CheckerState, tick_seconds: float) -> None:
        self._state = state
        self._grace = tick_seconds + _GRACE_SECONDS
        self._receivers: dict[str, ReceiverRecord] = {}
        self.received: dict[str, list[ReceivedMessage]] = {}  # by receiver

    def stored(self, receiver: str, id_: str, event: str, subject: str, due: datetime) -> None:
        """Note a message; incidents are reported once when they begin and once when they end."""
        record = self._receivers.setdefault(receiver, ReceiverRecord())
        key = (str(event), subject)
        if key in record.messages:
            self._wrong(receiver, f"{key} is stored twice")
        if receiver == "daily" and (due.hour, due.minute) != (8, 0):
            self._wrong(receiver, f"{key} is to be sent at {due}")
        at = self._state.clock.monotonic()
        message = MessageRecord(id_, key, due, at)
        record.messages[key] = record.waiting[key] = record.by_id[id_] = message

    def arrived(self, receiver: str, id_: str, body: str) -> None:
        """Check a message that a receiver has accepted, whether we learn of that or not."""
        record = self._receivers.setdefault(receiver, ReceiverRecord())
        keys = _reported(json.loads(body), id_, record)
        self.received.setdefault(receiver, []).append(ReceivedMessage(id_, keys))
        for key in keys:
            message = record.messages.get(key)
            if message is None:
                self._wrong(receiver, f"{key} arrived and was not stored")
            elif message.is_delivered:
                self._wrong(receiver, f"{key} arrived again")
            else:
                message.is_received = True
                self._check_order(receiver, record, message, keys)

    def attempted(self, receiver: str, result: "WebhookDelivery") -> None:
        """Note the stored result of an attempt."""
        record = self._receivers[receiver]
        message = record.by_id[result.id]
        if result.delivered_at is None:
            message.failures += 1
            record.failed_at = self._state.clock.monotonic()
        elif not message.is_received:
            self._wrong(receiver, f"{message.key} is stored as delivered and did not arrive")
        if result.next_attempt_at is None:
            if result.delivered_at is None and message.failures < _ATTEMPTS:
                text = f"{message.key} is given up after {message.failures} attempts"
                self._wrong(receiver, text)
            message.is_delivered = True  # or given up
            del record.waiting[message.key]

    def check_all(self) -> None:
        """Find messages that should have been sent: those whose attempts failed may wait longer."""
        faults, clock = self._state.fault_history, self._state.clock
        since = clock.monotonic() - self._grace
        if not faults.up or max(faults.up_since, faults.clock_changed_at) > since:
            return
        for receiver, record in self._receivers.items():
            if record.failed_at + _MAX_PAUSE_SECONDS > since:
                continue
            for message in record.waiting.values():
                is_late = (clock.now() - message.due).total_seconds() > self._grace
                if is_late and message.stored_at < since and not message.failures:
                    self._wrong(receiver, f"{message.key} is due since {message.due}")

    def _check_order(
        self,
        receiver: str,
        record: ReceiverRecord,
        message: MessageRecord,
        keys: tuple[_Key, ...],
    ) -> None:
        """Check that no message overtakes another, unless attempts to send that one failed."""
        event, subject = message.key
        begun = record.messages.get((_OPENED, subject)) if event == _CLOSED else None
        if begun is not None and not begun.is_received and begun.key not in keys:
            self._wrong(receiver, f"the end of {subject} arrived before its beginning")
        first = next(iter(record.waiting.values()))
        if first is not message and not (first.failures or first.is_received):
            self._wrong(receiver, f"{message.key} arrived before {first.key}")
        is_early = message.due > self._state.clock.now()
        others = [record.messages[key] for key in keys if key in record.messages]
        if is_early and all(one.due > self._state.clock.now() for one in others):
            changed_at = self._state.fault_history.clock_changed_at
            if not message.failures and changed_at < first.stored_at:
                self._wrong(receiver, f"{message.key} arrived before {message.due}")

    def _wrong(self, receiver: str, what: str) -> None:
        rule = "V2" if receiver == "posts" else "Y3"
        self._state.violate(rule, "", "", f"{receiver}: {what}")


def _reported(message: dict[str, Any], id_: str, record: ReceiverRecord) -> tuple[_Key, ...]:
    """Return what a message reports; the end of an incident in a digest includes its beginning."""
    type_, data = message["type"], message["data"]
    if type_ in (_OPENED, _CLOSED):
        return ((type_, data["id"]),)
    if type_ != _DIGEST:
        known = record.by_id.get(id_)
        return ((type_, id_) if known is None else known.key,)
    if len(data["incidents"]) >= _MOST_LISTED:
        return tuple(record.waiting)  # the others are not listed
    keys: list[_Key] = []
    for incident in data["incidents"]:
        opened, closed = (_OPENED, incident["id"]), (_CLOSED, incident["id"])
        if incident["closedAt"] is None:
            keys.append(opened)
        else:
            keys += [opened, closed] if opened in record.waiting else [closed]
    return tuple(keys)
