"""Reads server-sent events, and resumes a stream that was interrupted."""

import json
from collections.abc import Iterable
from typing import Any

from headwater.client.decoding import decode
from headwater.client.errors import HeadwaterClientError, wait_before_retry
from headwater.client.http_exchange import IncomingResponse
from headwater.client.operation import ApiRequest, given, path_of
from headwater.client.results.events import EVENT_TYPES, Event

_STREAM = "text/event-stream"
_RETRY_SECONDS = 2.0  # unless the service sends another


class EventReader:
    """The events of a stream, over all its connections."""

    def __init__(
        self,
        podcast: str | None,
        source: str | None,
        types: Iterable[str] | None,
        last_event_id: str | None,
    ) -> None:
        kinds = None if types is None else ",".join(types)
        self._query = given(podcast=podcast, source=source, types=kinds)
        self._last_id = last_event_id
        self._retry_seconds = _RETRY_SECONDS
        self._was_connected = False
        self._unread = b""
        self._fields: dict[str, str] = {}

    @property
    def request(self) -> ApiRequest[str]:
        """Opens the stream, after the last event."""
        resume = {} if self._last_id is None else {"Last-Event-ID": self._last_id}
        return ApiRequest("GET", path_of("events"), str, self._query, headers=resume)

    def accept(self, head: IncomingResponse) -> bool:
        """Whether a response is a stream of events; if so, the parts that follow belong to it."""
        self._unread, self._fields = b"", {}  # of an event that was interrupted
        is_stream = head.status == 200 and head.headers.get("content-type", "").startswith(_STREAM)
        self._was_connected |= is_stream
        return is_stream

    def seconds_after(self, error: HeadwaterClientError | None) -> float:
        """How long to wait before reconnecting; raise if that cannot help."""
        if error is None:
            return self._retry_seconds
        if not self._was_connected:
            raise error
        return wait_before_retry(error, self._retry_seconds)

    def events_in(self, part: bytes) -> list[Event]:
        """The events that this part of a response completes."""
        *lines, self._unread = (self._unread + part).split(b"\n")
        found = [self._event_at(line.rstrip(b"\r").decode()) for line in lines]
        return [event for event in found if event is not None]

    def _event_at(self, line: str) -> Event | None:
        if line:
            name, _, value = line.partition(":")
            if name:  # else a comment
                self._fields[name] = value.removeprefix(" ")
            return None
        fields, self._fields = self._fields, {}
        self._last_id = fields.get("id", self._last_id)
        if fields.get("retry", "").isdigit():
            self._retry_seconds = int(fields["retry"]) / 1000
        return None if "data" not in fields else self._event(fields)

    def _event(self, fields: dict[str, str]) -> Event:
        kind, data = fields.get("event", "message"), json.loads(fields["data"])
        known = EVENT_TYPES.get(kind)
        decoded: Any = data if known is None else decode(known, data)
        return Event(id=self._last_id or "", event=kind, data=decoded)
