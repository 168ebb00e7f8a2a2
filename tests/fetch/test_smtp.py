"""E-mails reach a real mail server; hostile ones are bounded, and no secret is shown (Y3)."""

import asyncio
import socket
from email.message import EmailMessage
from pathlib import Path

import pytest

from headwater.errors import NotSent
from headwater.fetch.net.smtp import Mailer, MailServer, Tls
from tests.smtp_receiver import SmtpReceiver, certificate, receiving

PASSWORD = "correct-horse-battery"


def a_message() -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = "headwater@example.org", "ann@example.org"
    message["Subject"] = "Flüsse"
    message.set_content("More water.\n.\nThan last year.\n")
    return message


def a_mailer(receiver: SmtpReceiver, tls: Tls = "none", password: str | None = None) -> Mailer:
    user = None if password is None else "ann"
    server = MailServer("127.0.0.1", "headwater@example.org", receiver.port, tls, user, password)
    return Mailer(server)


async def sent(receiver: SmtpReceiver, tls: Tls = "none", password: str | None = None) -> None:
    await a_mailer(receiver, tls, password).send(a_message(), "ann@example.org")


async def test_y3_a_mail_reaches_the_server_as_it_is():
    async with receiving() as receiver:
        await sent(receiver)
    (message,) = receiver.messages
    assert message["Subject"] == "Flüsse"
    assert message.get_content() == "More water.\n.\nThan last year.\n"
    assert receiver.envelopes == [("headwater@example.org", ["ann@example.org"])]


@pytest.mark.parametrize("tls", ["starttls", "tls"])
async def test_y3_with_tls_and_a_login(tls: Tls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file, context = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    server = SmtpReceiver(tls=context, starts_tls=tls == "starttls", login=("ann", PASSWORD))
    async with receiving(server) as receiver:
        await sent(receiver, tls, PASSWORD)
    assert receiver.is_encrypted == [True]
    if tls == "starttls":
        assert receiver.commands.index("STARTTLS") < receiver.commands.index("AUTH")


@pytest.mark.parametrize("tls", ["starttls", "tls"])
async def test_y3_n14_a_certificate_that_nobody_trusts_is_refused(tls: Tls, tmp_path: Path):
    _, context = certificate(tmp_path)
    server = SmtpReceiver(tls=context, starts_tls=tls == "starttls", login=("ann", PASSWORD))
    async with receiving(server) as receiver:
        with pytest.raises(NotSent, match="certificate of the mail server"):
            await sent(receiver, tls, PASSWORD)
    assert "AUTH" not in receiver.commands


async def test_y3_without_starttls_nothing_is_sent_in_plain():
    async with receiving(SmtpReceiver(login=("ann", PASSWORD))) as receiver:
        with pytest.raises(NotSent):
            await sent(receiver, "starttls", PASSWORD)
    assert not {"AUTH", "MAIL"} & set(receiver.commands)


async def test_y3_u6_a_refused_login_shows_no_password():
    async with receiving(SmtpReceiver(login=("ann", PASSWORD))) as receiver:
        with pytest.raises(NotSent) as caught:
            await sent(receiver, password="wrong-password")
    assert str(caught.value) == "the mail server refused the user name or password (535)"


async def test_y3_u6_a_server_that_repeats_the_password_does_not_disclose_it():
    server = SmtpReceiver(login=("ann", PASSWORD), refuses=f"550 no\x1b[31m {PASSWORD}")
    async with receiving(server) as receiver:
        with pytest.raises(NotSent) as caught:
            await sent(receiver, password=PASSWORD)
    assert str(caught.value) == "the mail server refused it: 550 no [31m ***"
    assert PASSWORD not in repr(a_mailer(receiver, password=PASSWORD).server)


async def endless_banner(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"220-" + b"x" * 10_000)
        await writer.drain()


async def slow_banner(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"220-x\r\n")
        await asyncio.sleep(0.01)


async def silence(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def nonsense(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\xff\x1b[2J GET / HTTP/1.1\r\n")


async def goodbye(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    pass


@pytest.mark.parametrize("hostile", [endless_banner, slow_banner, silence, nonsense, goodbye])
async def test_y3_a_hostile_server_is_bounded(hostile):
    async with receiving(SmtpReceiver(hostile=hostile)) as receiver:
        server = MailServer("127.0.0.1", "headwater@example.org", receiver.port, "none")
        with pytest.raises(NotSent) as caught:
            await Mailer(server, seconds=1.0).send(a_message(), "ann@example.org")
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) <= 250


async def test_y3_no_server_is_an_error_that_says_so():
    with socket.socket() as unused:  # bound, so that no other program listens there
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(NotSent, match="no connection to the mail server"):
            await sent(SmtpReceiver(port=unused.getsockname()[1]))
