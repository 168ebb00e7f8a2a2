"""The command notices (Y3)."""

TOPIC = "http://ann:secret-word@127.0.0.1:9/topic"


def test_y3_channels_are_added_listed_changed_and_removed(cli):
    assert cli("notices", "add", "email", "ann@EXAMPLE.org", "--digest", "--hour", "6").code == 0
    assert cli("notices", "add", "ntfy", TOPIC).code == 0
    shown = cli("notices")
    assert [row[:3] for row in shown.rows] == [
        ["email", "ann@example.org", "daily at 06:00 UTC"],
        ["ntfy", "http://127.0.0.1:9/topic", "immediately"],
    ]
    assert "secret-word" not in shown.out
    assert cli("notices", "add", "email", "ann@example.org").code == 0
    channels = cli.json("notices", "--json")["channels"]
    assert [(one["kind"], one["when"]) for one in channels] == [("ntfy", "now"), ("email", "now")]
    assert cli("notices", "remove", TOPIC).code == 0
    assert len(cli("notices").rows) == 1


def test_y3_a_test_says_what_became_of_it_and_exits_1_if_one_failed(cli):
    assert cli("migrate").code == 0
    assert "no channel" in cli.fails("notices", "test", code=2)
    cli("notices", "add", "email", "ann@example.org")
    said = cli("notices", "test")
    assert said.code == 1
    assert "app.mail.host is not set" in said.out
    assert cli.json("notices", "--json")["channels"][0]["last"]["event"] == "notice.test"


def test_y3_wrong_channels_are_refused(cli):
    assert cli("migrate").code == 0
    assert "e-mail address" in cli.fails("notices", "add", "email", "ann", code=2)
    assert "topic is missing" in cli.fails("notices", "add", "ntfy", "https://ntfy.sh", code=2)
    assert "no such channel" in cli.fails("notices", "remove", "ann@example.org", code=2)
