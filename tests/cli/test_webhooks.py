"""The command webhooks (V2)."""

import pytest

URL = "http://127.0.0.1:9/hook"
of_each = pytest.mark.parametrize("owner", [(), ("--all-podcasts",)], ids=["podcast", "all"])


@of_each
def test_v2_a_webhook_is_added_edited_tested_and_removed(cli, owner):
    added = cli("webhooks", "add", URL, "--query", "river", *owner)
    assert added.out.startswith("whsec_")
    (made,) = cli.json("webhooks", "list", "--json", *owner)
    assert made["podcastId"] == (None if owner else "default")
    others = () if owner else ("--all-podcasts",)
    assert cli.json("webhooks", "list", "--json", *others) == []

    edit = ("webhooks", "edit", made["id"][:4], *owner)
    said = cli(*edit, "--disable", "--event", "source.disabled", "--event", "source.recovered")
    assert said.out.strip() == f"Saved {made['id']}, disabled"
    (edited,) = cli.json("webhooks", "list", "--json", *owner)
    changed = {"events": ["source.disabled", "source.recovered"], "enabled": False}
    assert edited == made | changed
    assert cli(*edit, "--enable", "--query", "", "--url", f"{URL}/new").code == 0
    (edited,) = cli.json("webhooks", "list", "--json", *owner)
    assert edited == made | changed | {"enabled": True, "query": None, "url": f"{URL}/new"}

    assert cli("webhooks", "test", made["id"], *owner).code == 0
    (message,) = cli.json("webhooks", "deliveries", made["id"], "--json", *owner)
    assert message["event"] == "webhook.test"
    assert cli("webhooks", "resend", made["id"], message["id"], *owner).code == 0
    assert cli("webhooks", "remove", made["id"], "--yes", *owner).code == 0
    assert cli.json("webhooks", "list", "--json", *owner) == []


def test_v2_a_wrong_edit_changes_nothing(cli):
    cli("webhooks", "add", URL)
    before = cli.json("webhooks", "list", "--json")
    edit = ("webhooks", "edit", before[0]["id"])
    assert "expected )" in cli.fails(*edit, "--disable", "--query", "(river", code=2)
    assert "http" in cli.fails(*edit, "--disable", "--url", "ftp://127.0.0.1/", code=2)
    assert "no webhook begins" in cli.fails("webhooks", "edit", "nothing", "--disable", code=2)
    assert cli.json("webhooks", "list", "--json") == before
