"""Deliverer: sends messages to webhooks and channels until they are accepted (V2, Y3)."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from headwater.clock import Clock
from headwater.engine.hosts.access import HostAccess, HostVisit
from headwater.engine.loops import attempt
from headwater.engine.notifier import Notifier, OpenSecret, SendRequest
from headwater.errors import FetchError, HeadwaterError, NotSent, Stopping
from headwater.logs import get_logger
from headwater.rules.channels import ChannelChoice, ChannelKind
from headwater.rules.notice_messages import notice_of
from headwater.rules.url_secrets import masked
from headwater.rules.webhook_messages import secret_bytes, signed_headers
from headwater.rules.webhook_retries import retry_at
from headwater.store import Store
from headwater.store.webhooks import Outgoing, WebhookDelivery

log = get_logger()
DELIVER_SECONDS = 1.0  # between checks for messages to send
_BATCH = 20  # messages whose results are stored together
_BATCH_SECONDS = 2.0  # after which results are stored, whatever their number
_MAX_ENDPOINTS = 200  # that are sent messages at a time
_PAUSE_SECONDS = (5.0, 300.0)  # of an endpoint after a failure: first, and at most
_GONE = 410
_MAX_ERROR = 300  # characters
_HEADERS = {"Content-Type": "application/json"}
_Send = Callable[[str, HostVisit], Awaitable[bool]]  # to an endpoint; True: continue


@dataclass(slots=True)
class _Pause:
    """How long an endpoint is left alone after failures in a row."""

    until: float
    seconds: float


class Deliverer:
    """Sends messages in order, one at a time per endpoint; endpoints do not wait for each other.

    An endpoint gets its messages during a visit, which no other process makes at the same time.
    A message that fails waits for its own retry, and the endpoint pauses, longer with each failure
    in a row: while it is down, few requests are sent, and later messages keep their attempts.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        rng: Random,
        post: SendRequest,
        open_secret: OpenSecret,
        hosts: HostAccess,
        may_send: Callable[[], bool],  # one process delivers
        *,
        notifier: Notifier | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self._post = post
        self._open_secret = open_secret
        self._hosts = hosts
        self._may_send = may_send
        self._notifier = notifier
        self._is_configured = False  # whether the channels of the configuration are stored
        self._running: dict[str, asyncio.Task[None]] = {}  # by webhook or channel
        self._pauses: dict[str, _Pause] = {}

    async def run(self) -> None:
        """Start to send what is due to endpoints that are not being sent anything yet."""
        if not self._may_send():
            return
        now = self._clock.now()
        for webhook_id in await self._store.webhooks.with_due(now):
            self._start(webhook_id, f"webhook:{webhook_id}", self._send_batch)
        if self._notifier is not None:
            await self._store_configured(self._notifier)
            send = partial(self._send_notice, self._notifier)
            for channel_id in await self._store.channels.with_due(now):
                self._start(channel_id, f"channel:{channel_id}", send)

    def _start(self, endpoint: str, lane: str, send: _Send) -> None:
        pause = self._pauses.get(endpoint)
        is_free = pause is None or pause.until <= self._clock.monotonic()
        if is_free and endpoint not in self._running and len(self._running) < _MAX_ENDPOINTS:
            task = asyncio.create_task(self._send_all(endpoint, lane, send))
            self._running[endpoint] = task
            task.add_done_callback(partial(self._ended, endpoint))

    async def _store_configured(self, notifier: Notifier) -> None:
        """Store the channels of the configuration once, so that incidents are reported to them."""
        if not self._is_configured:
            chosen = [ChannelChoice(ChannelKind.APPRISE, hash_) for hash_ in notifier.configured]
            await self._store.channels.replace_configured(None, chosen, self._clock.now())
            self._is_configured = True

    def _ended(self, webhook_id: str, _task: asyncio.Task[None]) -> None:
        del self._running[webhook_id]

    async def stop(self) -> None:
        """Stop sending; a message whose result is not stored is sent again at the next start."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_all(self, endpoint: str, lane: str, send: _Send) -> None:
        async def send_all() -> None:
            goes_on = True
            with suppress(Stopping):  # S8
                while goes_on:
                    async with self._hosts.visit(None, lane) as visit:
                        goes_on = self._may_send() and await send(endpoint, visit)

        def failed(message: str, error: HeadwaterError) -> None:
            self._pause(endpoint)
            log.warning(message, endpoint=endpoint, error=str(error))

        await attempt(send_all, "[Webhooks] messages could not be sent; trying again", failed)

    async def _send_notice(self, notifier: Notifier, channel_id: str, visit: HostVisit) -> bool:
        """Send in one message what a channel has not received, and store the result (Y3)."""
        pending = await self._store.channels.pending(channel_id)
        if pending is None:
            return False
        channel, error, now = pending.channel, None, self._clock.now()
        messages = {one.id: one.payload for one in pending.deliveries}
        try:
            notice = notice_of(channel_id, messages, now, dashboard=notifier.dashboard)
            await notifier.send(channel, notice, visit)
        except NotSent as problem:
            error = str(problem)[:_MAX_ERROR]
            self._pause(channel_id)
            log.warning(
                "[Notices] a message was not accepted", channel=channel_id, kind=channel.kind.value,
                error=error,
            )  # fmt: skip
        else:
            self._pauses.pop(channel_id, None)
        # those that were not due yet keep their attempts, or many problems would use them up
        results = [
            self._after(one, None, error)
            for one in pending.deliveries
            if error is None or (one.next_attempt_at is not None and one.next_attempt_at <= now)
        ]
        await asyncio.shield(self._store.webhooks.record_attempts(results))
        return False

    async def _send_batch(self, webhook_id: str, visit: HostVisit) -> bool:
        """Send the next messages in order and store the results; True: continue."""
        now = self._clock.now()
        outgoing = await self._store.webhooks.outgoing(webhook_id, now, _BATCH)
        if outgoing is None or not outgoing.deliveries:
            return False
        began = self._clock.monotonic()
        results: list[WebhookDelivery] = []
        try:
            key = secret_bytes(self._open_secret(outgoing.sealed, webhook_id))
            for delivery in outgoing.deliveries:
                results.append(await self._send(outgoing, delivery, key, visit))
                goes_on = results[-1].delivered_at is not None and self._may_send()
                if not goes_on or self._clock.monotonic() - began > _BATCH_SECONDS:
                    break
        finally:
            if results:
                await asyncio.shield(self._store.webhooks.record_attempts(results))
        if results[-1].status == _GONE:
            await self._disable(outgoing)
        return goes_on

    async def _send(
        self, outgoing: Outgoing, delivery: WebhookDelivery, key: bytes, visit: HostVisit
    ) -> WebhookDelivery:
        """Send one message, and return it as it is afterwards."""
        now = self._clock.now()
        url, text = outgoing.webhook.url, delivery.payload
        headers = _HEADERS | signed_headers(key, delivery.id, now, text)
        status, error = None, None
        try:
            status = (await self._post(url, text.encode(), headers, visit=visit)).status
        except FetchError as problem:
            error = str(problem)[:_MAX_ERROR]
        if status is not None and 200 <= status < 300:
            self._pauses.pop(outgoing.webhook.id, None)
            return self._after(delivery, status, None)
        self._pause(outgoing.webhook.id)
        result = self._after(delivery, status, error or f"HTTP {status}")
        log.warning(
            "[Webhooks] a message was not accepted",
            url=masked(url), id=delivery.id, attempt=result.attempts, error=result.error,
            retry_at=result.next_attempt_at,
        )  # fmt: skip
        return result

    def _after(
        self, delivery: WebhookDelivery, status: int | None, error: str | None
    ) -> WebhookDelivery:
        """A message after an attempt: delivered, to be sent again, or given up."""
        attempts, now = delivery.attempts + 1, self._clock.now()
        return replace(
            delivery,
            attempts=attempts,
            next_attempt_at=None if error is None else retry_at(attempts, now, self._rng),
            next_attempt_set_at=now,
            delivered_at=now if error is None else None,
            status=status,
            error=error,
        )

    def _pause(self, webhook_id: str) -> None:
        first, most = _PAUSE_SECONDS
        before = self._pauses.get(webhook_id)
        seconds = first if before is None else min(2 * before.seconds, most)
        self._pauses[webhook_id] = _Pause(self._clock.monotonic() + seconds, seconds)

    async def _disable(self, outgoing: Outgoing) -> None:
        reason = "the endpoint responded with 410 Gone"
        await self._store.webhooks.disable(outgoing.webhook.id, reason)
        log.warning("[Webhooks] disabled", url=masked(outgoing.webhook.url), reason=reason)
