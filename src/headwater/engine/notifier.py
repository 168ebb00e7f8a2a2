"""Notifier: sends a message to a channel of any kind (Y3)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from email.header import Header
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Protocol

from headwater.clock import Clock
from headwater.engine.hosts.access import HostVisit
from headwater.errors import FetchError, NotSent
from headwater.fetch.net.apprise_targets import AppriseTargets
from headwater.fetch.net.smtp import Mailer
from headwater.model import SealedSecret
from headwater.rules.channels import Channel, ChannelKind
from headwater.rules.notice_messages import Notice
from headwater.rules.webhook_messages import secret_bytes, signed_headers
from headwater.store import Store

_MAX_NTFY_BYTES = 4000  # longer ones arrive as attachments


class Posted(Protocol):
    """The response to a message."""

    @property
    def status(self) -> int:
        """Its status."""
        ...


class SendRequest(Protocol):
    """Sends a POST request to a URL, as long as the visit allows it."""

    def __call__(
        self, url: str, body: bytes, headers: Mapping[str, str], *, visit: HostVisit | None
    ) -> Awaitable[Posted]:
        """Send this body with these headers; raises FetchError or LeaseLost."""
        ...


OpenSecret = Callable[[SealedSecret, str], str]  # decrypts the secret of a webhook


class Notifier:
    """Sends messages through the mail server, our HTTP client and Apprise."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        post: SendRequest,
        open_secret: OpenSecret,
        mailer: Mailer | None = None,
        apprise: AppriseTargets | None = None,
        *,
        dashboard: str | None = None,
    ) -> None:
        """`dashboard`: its address, for links in messages."""
        self._store = store
        self._clock = clock
        self._post = post
        self._open_secret = open_secret
        self._mailer = mailer
        self._apprise = apprise
        self.dashboard = dashboard

    @property
    def configured(self) -> Sequence[str]:
        """The hashes of the targets of the configuration."""
        return () if self._apprise is None else self._apprise.hashes

    async def send(self, channel: Channel, notice: Notice, visit: HostVisit | None = None) -> None:
        """Send a message, as long as the visit allows it; NotSent says why it was not accepted."""
        match channel.kind:
            case ChannelKind.EMAIL:
                await self._send_mail(channel.target, notice)
            case ChannelKind.NTFY:
                await self._publish(channel.target, notice, visit)
            case ChannelKind.WEBHOOK:
                await self._send_signed(channel.target, notice, visit)
            case ChannelKind.APPRISE:
                if self._apprise is None:
                    raise NotSent("app.notify.apprise-urls is not set")
                await self._apprise.send(channel.target, notice)

    async def _send_mail(self, address: str, notice: Notice) -> None:
        if self._mailer is None:
            raise NotSent("this server sends no e-mail: app.mail.host is not set")
        sender = self._mailer.server.sender
        message = EmailMessage()
        message["From"] = Address("Headwater", addr_spec=sender)
        message["To"] = Address(addr_spec=address)
        message["Subject"] = notice.subject
        message["Date"] = format_datetime(self._clock.now())
        message["Message-ID"] = f"<{notice.id}@{sender.rpartition('@')[2]}>"
        message["Auto-Submitted"] = "auto-generated"  # no out-of-office replies
        message.set_content(notice.text)
        message.add_alternative(notice.html, subtype="html")
        await self._mailer.send(message, address)

    async def _publish(self, url: str, notice: Notice, visit: HostVisit | None) -> None:
        """Publish to an ntfy topic."""
        priority = "min" if notice.is_quiet else "default"
        headers = {
            "Content-Type": "text/plain; charset=utf-8",
            "Title": _header(notice.subject),
            "Priority": priority,
            "Tags": "white_check_mark" if notice.is_good else "warning",
        }
        if notice.link is not None:
            headers["Click"] = notice.link
        body = notice.text.encode()[:_MAX_NTFY_BYTES].decode(errors="ignore").encode()
        await self._post_to(url, body, headers, visit)

    async def _send_signed(self, webhook_id: str, notice: Notice, visit: HostVisit | None) -> None:
        now = self._clock.now()
        outgoing = await self._store.webhooks.outgoing(webhook_id, now, 0)
        if outgoing is None:
            raise NotSent("the webhook is disabled")
        key = secret_bytes(self._open_secret(outgoing.sealed, webhook_id))
        headers = {"Content-Type": "application/json"}
        headers |= signed_headers(key, notice.id, now, notice.payload)
        await self._post_to(outgoing.webhook.url, notice.payload.encode(), headers, visit)

    async def _post_to(
        self, url: str, body: bytes, headers: Mapping[str, str], visit: HostVisit | None
    ) -> None:
        try:
            status = (await self._post(url, body, headers, visit=visit)).status
        except FetchError as error:
            raise NotSent(str(error)) from error
        if not 200 <= status < 300:
            raise NotSent(f"HTTP {status}")


def _header(text: str) -> str:
    """Text as the value of a header: encoded words unless it is plain ASCII."""
    return text if text.isascii() else Header(text, "utf-8", maxlinelen=1000).encode()
