"""A mail server on loopback for tests: TLS, STARTTLS, a login, refusals and hostile behaviour."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

Hostile = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class SmtpReceiver:
    """What the server does, and what it received."""

    port: int = 0
    tls: ssl.SSLContext | None = None
    starts_tls: bool = False  # offers STARTTLS
    login: tuple[str, str] | None = None  # required
    refuses: str = ""  # the response to RCPT
    hostile: Hostile | None = None
    messages: list[EmailMessage] = field(default_factory=list)
    envelopes: list[tuple[str, list[str]]] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    is_encrypted: list[bool] = field(default_factory=list)  # by message


class _Conversation:
    def __init__(
        self, server: SmtpReceiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.server, self.reader, self.writer = server, reader, writer
        self.encrypted = server.tls is not None and not server.starts_tls
        self.sender, self.recipients, self.is_logged_in = "", list[str](), False

    async def run(self) -> None:
        self.say("220 receiver")
        while line := (await self.reader.readline()).decode().rstrip("\r\n"):
            verb, _, rest = line.partition(" ")
            self.server.commands.append(verb.upper())
            if await self.obey(verb.upper(), rest):
                return

    async def obey(self, verb: str, rest: str) -> bool:
        match verb:
            case "EHLO":
                offers = ["receiver"]
                offers += ["STARTTLS"] if self.server.starts_tls and not self.encrypted else []
                offers += ["AUTH PLAIN"] if self.server.login else []
                for offer in offers[:-1]:
                    self.say(f"250-{offer}")
                self.say(f"250 {offers[-1]}")
            case "STARTTLS":
                self.say("220 go on")
                assert self.server.tls is not None
                await self.writer.start_tls(self.server.tls)
                self.encrypted = True
            case "AUTH":
                given = base64.b64decode(rest.partition(" ")[2]).decode().split("\0")[1:]
                self.is_logged_in = tuple(given) == self.server.login
                self.say("235 welcome" if self.is_logged_in else f"535 no: {rest}")
            case "MAIL" if self.server.login and not self.is_logged_in:
                self.say("530 log in first")
            case "MAIL":
                self.sender = rest.partition("<")[2].partition(">")[0]
                self.say("250 ok")
            case "RCPT":
                self.recipients.append(rest.partition("<")[2].partition(">")[0])
                self.say(self.server.refuses or "250 ok")
            case "DATA":
                await self.receive()
            case "QUIT":
                self.say("221 bye")
                return True
            case _:
                self.say("250 ok")
        return False

    async def receive(self) -> None:
        self.say("354 go on")
        data = await self.reader.readuntil(b"\r\n.\r\n")
        text = data[:-3].replace(b"\r\n..", b"\r\n.").replace(b"\r\n", b"\n")
        self.server.messages.append(message_from_bytes(text, policy=policy.default))
        self.server.envelopes.append((self.sender, self.recipients))
        self.server.is_encrypted.append(self.encrypted)
        self.say("250 stored")

    def say(self, line: str) -> None:
        self.writer.write(f"{line}\r\n".encode())


@asynccontextmanager
async def receiving(receiver: SmtpReceiver | None = None) -> AsyncIterator[SmtpReceiver]:
    """Runs a mail server; its port is that of the receiver, or a free one."""
    server = receiver or SmtpReceiver()
    conversations = set[asyncio.Task[None]]()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        conversations.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                if server.hostile is not None:
                    await server.hostile(reader, writer)
                else:
                    await _Conversation(server, reader, writer).run()
                writer.close()
                await writer.wait_closed()
        finally:
            writer.transport.abort()
            conversations.discard(task)

    context = None if server.starts_tls else server.tls
    listening = await asyncio.start_server(accept, "127.0.0.1", server.port, ssl=context)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in list(conversations):
            task.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)
        await asyncio.sleep(0)  # transports close in the next round of the loop


def certificate(folder: Path, name: str = "127.0.0.1") -> tuple[Path, ssl.SSLContext]:
    """A certificate of its own authority for an address, and a server context with it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "receiver")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(name))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    file, key_file = folder / "receiver.pem", folder / "receiver.key"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key_file)
    return file, context
