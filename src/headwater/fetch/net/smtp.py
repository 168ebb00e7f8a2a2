"""Hands e-mails to the mail server of the operator; the only module that uses SMTP (N1, Y3).

The server is named in the configuration, so the address guard does not apply to it.
"""

import asyncio
import base64
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Literal

import aiosmtplib

from headwater.errors import NotSent

_MAIL_SECONDS = 60.0  # for a whole message, whatever the server does
_STEP_SECONDS = 20.0  # for each response
_AT_A_TIME = 4
_MAX_REASON = 200  # characters
_PORTS = {"starttls": 587, "tls": 465, "none": 25}
Tls = Literal["starttls", "tls", "none"]


@dataclass(frozen=True, slots=True)
class MailServer:
    """The mail server, and how to log in."""

    host: str
    sender: str  # an address
    port: int | None = None  # None: the usual one
    tls: Tls = "starttls"
    username: str | None = None
    password: str | None = field(default=None, repr=False)


class Mailer:
    """Sends messages through a mail server, few at a time."""

    def __init__(self, server: MailServer, *, seconds: float = _MAIL_SECONDS) -> None:
        self.server = server
        self._seconds = seconds
        self._free = asyncio.Semaphore(_AT_A_TIME)
        self._secrets = list(_forms(server)) if server.password else []

    async def send(self, message: EmailMessage, recipient: str) -> None:
        """Send a message, or raise NotSent, whose text contains no secret (U6)."""
        async with self._free:
            try:
                async with asyncio.timeout(self._seconds):
                    await self._send(message, recipient)
            except (aiosmtplib.SMTPException, OSError, ValueError) as error:  # also timeouts, TLS
                raise NotSent(self._reason(error)) from None

    async def _send(self, message: EmailMessage, recipient: str) -> None:
        server = self.server
        is_plain = server.tls == "none"
        await aiosmtplib.send(
            message,
            sender=server.sender,
            recipients=[recipient],
            hostname=server.host,
            port=_PORTS[server.tls] if server.port is None else server.port,
            local_hostname=server.sender.rpartition("@")[2],
            username=server.username,
            password=server.password,
            timeout=_STEP_SECONDS,
            use_tls=server.tls == "tls",
            start_tls=server.tls == "starttls",  # required, not only if offered
            tls_context=None if is_plain else ssl.create_default_context(),
        )

    def _reason(self, error: Exception) -> str:
        match error:
            case aiosmtplib.SMTPAuthenticationError(code=code):
                return f"the mail server refused the user name or password ({code})"
            case aiosmtplib.SMTPRecipientsRefused(recipients=[first, *_]):
                return self._shown(f"the mail server refused it: {first.code} {first.message}")
            case aiosmtplib.SMTPResponseException(code=code, message=message):
                return self._shown(f"the mail server refused it: {code} {message}")
            case TimeoutError() | aiosmtplib.SMTPTimeoutError():
                return "the mail server did not respond in time"
        cause = error.__cause__ or error.__context__ or error
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "the certificate of the mail server is not valid for its name"
        if isinstance(cause, OSError) and cause.strerror:
            return self._shown(f"no connection to the mail server: {cause.strerror}")
        return self._shown(f"no connection to the mail server: {error}")

    def _shown(self, text: str) -> str:
        """One short line; a server might repeat what it was sent."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return line[:_MAX_REASON]


def _forms(server: MailServer) -> Iterator[str]:
    """The password as it is sent: plain, and encoded as two methods of authentication do."""
    password = server.password or ""
    yield password
    for text in (password, f"\0{server.username}\0{password}"):
        yield base64.b64encode(text.encode()).decode()
