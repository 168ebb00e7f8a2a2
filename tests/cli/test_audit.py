"""The audit log on the command line: every command that changes something leaves an entry (U9)."""

import json
from collections.abc import Mapping
from datetime import datetime

import pytest

from headwater.cli.program import create_program

READS = """
    articles audit batches cluster|status config doctor explain export incidents keys|list
    list notices|list podcasts|list post posts preview search searches|list show simulate status
    tokens|list users|list webhooks|deliveries webhooks|list
""".split()  # fmt: skip
# services, and commands for the schema, the files and a cluster
OTHERS = "cluster|drain cluster|shards demo mcp serve worker migrate vacuum".split()
# they need content: tested in test_configuration.py, test_edit_sources.py and
# test_posts_and_articles.py
WITH_CONTENT = "accept annotate apply discard unprocess".split()
ADDED = ("add", "http://127.0.0.1:9/feed", "--type", "rss")
OPML = '<opml version="2.0"><body><outline xmlUrl="http://127.0.0.1:9/o"/></body></opml>'
TOKEN = ("tokens", "add", "laptop")
SEARCH = ("searches", "add", "rates", "interest rates")
HOOK = ("webhooks", "add", "http://127.0.0.1:9/hook")
HOOK_TEST = ("webhooks", "test", "")  # the only one
TOPIC = ("notices", "add", "ntfy", "http://127.0.0.1:9/topic")
ANNA, PODCAST = ("users", "add", "anna"), ("podcasts", "add", "p")
# commands with their arguments, commands before them, and the action of the entry
WRITES: dict[str, tuple[tuple[str, ...], list[tuple[str, ...]], str]] = {
    "add": (ADDED, [], "source.add"),
    "webhooks|add": (HOOK, [], "webhook.add"),
    "webhooks|remove": (("webhooks", "remove", "", "--yes"), [HOOK], "webhook.remove"),
    "webhooks|edit": (("webhooks", "edit", "", "--disable"), [HOOK], "webhook.edit"),
    "webhooks|test": (HOOK_TEST, [HOOK], "webhook.test"),
    "webhooks|resend": (
        ("webhooks", "resend", "", "msg_"), [HOOK, HOOK_TEST], "webhook.resend"
    ),
    "notices|add": (TOPIC, [], "notices.set"),
    "notices|remove": (("notices", "remove", TOPIC[3]), [TOPIC], "notices.set"),
    "notices|test": (("notices", "test"), [TOPIC], "notices.test"),
    "searches|add": (SEARCH, [], "search.add"),
    "searches|remove": (("searches", "remove", "rates"), [SEARCH], "search.remove"),
    "edit": (("edit", ADDED[1], "--interval", "9"), [ADDED], "source.edit"),
    "enable": (("enable", ADDED[1]), [ADDED], "source.edit"),
    "disable": (("disable", ADDED[1]), [ADDED], "source.edit"),
    "remove": (("remove", ADDED[1], "--yes"), [ADDED], "source.remove"),
    "import": (("import", "-"), [], "sources.import"),
    "poll": (("poll", "--url", ADDED[1]), [ADDED], "sources.poll"),
    "aggregate": (("aggregate",), [], "articles.aggregate"),
    "backup": (("backup", "new.db"), [], "database.backup"),
    "restore": (("restore", "new.db", "--yes"), [("backup", "new.db")], "database.restore"),
    "users|add": (ANNA, [], "user.add"),
    "users|remove": (("users", "remove", "anna", "--yes"), [ANNA], "user.remove"),
    "podcasts|add": (PODCAST, [], "podcast.add"),
    "podcasts|edit": (("podcasts", "edit", "p", "--dedupe"), [PODCAST], "podcast.edit"),
    "podcasts|remove": (("podcasts", "remove", "p", "--yes"), [PODCAST], "podcast.remove"),
    "keys|set": (("keys", "set", "x"), [], "key.set"),
    "keys|remove": (("keys", "remove", "x"), [], "key.remove"),
    "keys|rotate": (("keys", "rotate"), [], "key.rotate"),
    "tokens|add": (TOKEN, [], "token.add"),
    "tokens|revoke": (("tokens", "revoke", "laptop"), [TOKEN], "token.revoke"),
}  # fmt: skip


def test_u9_every_command_reads_or_leaves_an_entry():
    program = create_program()
    program.load_all()
    names: set[str] = set()
    for name, command in program.commands.items():
        parts: Mapping[str, object] | None = getattr(command, "commands", None)
        names |= {name} if parts is None else {f"{name}|{one}" for one in parts}
    assert names == {*READS, *OTHERS, *WITH_CONTENT, *WRITES}, (
        "a new command needs a place in this test"
    )


@pytest.mark.parametrize("name", WRITES)
def test_u9_a_command_leaves_one_entry(cli, name):
    arguments, before, action = WRITES[name]
    assert cli("migrate").code == 0
    if name == "keys|remove":
        cli("keys", "set", "x", given="secret-key")
    for command in before:
        assert cli(*command).code == 0
    count = len(cli.json("audit", "--json"))
    given = OPML if name == "import" else "secret-key" if name == "keys|set" else None
    cli(*arguments, **({} if given is None else {"given": given}))
    found = cli.json("audit", "--json")
    assert len(found) == count + 1
    assert (found[0]["who"], found[0]["action"]) == ("command line", action)
    assert set(found[0]) == {"at", "who", "action", "target", "detail"}
    assert "secret-key" not in json.dumps(found)


def test_u9_entries_are_listed_newest_first_and_from_a_time_on(cli):
    cli("users", "add", "anna")
    cli("users", "add", "bert")
    table = cli("audit")
    assert [row[1:3] + row[4:] for row in table.rows] == [
        ["command line", "user.add", "name=bert"],
        ["command line", "user.add", "name=anna"],
    ]
    assert len(cli("audit", "--limit", "1").rows) == 1
    assert len(cli("audit", "--since", "1h").rows) == 2
    assert cli("audit", "--since", "2099-01-01").rows == []
    assert "is no time" in cli.fails("audit", "--since", "yesterday", code=2)
    at = cli.json("audit", "--json")[0]["at"]
    assert datetime.fromisoformat(at).tzinfo is not None
