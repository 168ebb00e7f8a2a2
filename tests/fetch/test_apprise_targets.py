"""Apprise targets of the configuration, with a real receiver on loopback (Y3)."""

import builtins
import json
from typing import Any

import pytest

from headwater.errors import ConfigError, NotSent
from headwater.fetch.net.apprise_targets import AppriseTargets
from headwater.rules.notice_messages import Notice
from tests.api.test_webhooks import receiving

# what the library imports
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
NOTICE = Notice("n", "Headwater: 2 problems", "Problems:\n\n- one\n", "<p>", "{}")


async def test_y3_a_target_gets_title_and_text():
    async with receiving() as receiver:
        targets = AppriseTargets([receiver.url.replace("http:", "json:")])
        (hash_,) = targets.hashes
        await targets.send(hash_, NOTICE)
    (message,) = [json.loads(body) for _, body in receiver.requests]
    assert message["title"] == NOTICE.subject
    assert "- one" in message["message"]


async def test_y3_a_target_that_refuses_is_an_error_without_its_url(
    capfd: pytest.CaptureFixture[str],
):
    async with receiving() as receiver:
        receiver.status = 500
        url = receiver.url.replace("http://", "json://ann:secret-word@")
        targets = AppriseTargets([url])
        with pytest.raises(NotSent) as caught:
            await targets.send(targets.hashes[0], NOTICE)
    shown = capfd.readouterr()
    assert "secret-word" not in f"{caught.value}{shown.out}{shown.err}{targets.hashes}"


async def test_y3_unknown_targets_and_urls_are_errors():
    with pytest.raises(ConfigError, match="URL number 2") as caught:
        AppriseTargets(["json://127.0.0.1", "nonsense://secret-word"])
    assert "secret-word" not in str(caught.value)
    with pytest.raises(NotSent, match="does not contain"):
        await AppriseTargets(["json://127.0.0.1"]).send("other", NOTICE)


def test_y3_without_the_package_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch):
    real = builtins.__import__

    def without_apprise(name: str, *others: Any) -> Any:
        if name == "apprise":
            raise ImportError(name)
        return real(name, *others)

    monkeypatch.setattr(builtins, "__import__", without_apprise)
    with pytest.raises(ConfigError, match=r"headwater\[apprise\]"):
        AppriseTargets(["json://127.0.0.1"])
