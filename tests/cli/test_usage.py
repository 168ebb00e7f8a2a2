"""Help, global options, exit codes, and one-line errors."""

import asyncio
import sqlite3

import pytest

from headwater import __version__
from headwater.cli import hoisted, main
from headwater.cli.cli_context import run
from headwater.cli.program import create_program
from headwater.errors import UsageError
from tests.cli.command_runner import ESCAPE, process


def commands(command=None, path=()):
    """Every command with the words that select it."""
    if command is None:
        command = create_program()
        command.load_all()
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*path, name))


EVERY_COMMAND = [path for path, _ in commands()]
PROMISED = """serve poll preview add list show explain edit enable disable remove posts articles
    aggregate import export users podcasts keys tokens config migrate backup restore vacuum doctor
    demo simulate""".split()


def test_every_command_of_the_contract_exists():
    assert {path[0] for path in EVERY_COMMAND if path} >= set(PROMISED)


@pytest.mark.parametrize("path", EVERY_COMMAND, ids=" ".join)
def test_help_is_a_sentence_and_an_example(cli, path):
    said = cli(*path, "--help")
    assert said.code == 0
    assert "Example: headwater " in said.out
    assert "..." not in said.out.partition("\n")[2].partition("\n\n")[2], "a sentence is cut"
    assert ESCAPE not in said.out


def test_the_examples_parse():
    for path, command in commands():
        example = command.epilog.removeprefix("Example: headwater ").partition(" < ")[0].split()
        words = hoisted(example)
        assert words[: len(path)] == list(path) or path == () or words[0].startswith("--")


def test_without_a_command_help_is_shown(cli):
    said = cli()
    assert (said.code, said.err) == (0, "")
    assert "Commands:" in said.out


def test_version(cli):
    assert cli("--version").out == f"headwater {__version__}\n"
    assert cli("list", "--version").out == f"headwater {__version__}\n"


@pytest.mark.parametrize(
    ("given", "moved"),
    [
        (["list", "--user", "a", "--json"], ["--user", "a", "list", "--json"]),
        (["list", "--user=a"], ["--user=a", "list"]),
        (["--user", "a", "list"], ["--user", "a", "list"]),
        (["add", "--", "--user"], ["add", "--", "--user"]),
        (["list", "--version"], ["--version", "list"]),
    ],
)
def test_global_options_may_come_anywhere(given, moved):
    assert hoisted(given) == moved


def test_a_global_option_without_its_value_is_refused():
    with pytest.raises(UsageError, match="--config needs a value"):
        hoisted(["list", "--config"])


def test_the_database_can_be_given_before_and_after_the_command(cli):
    url = f"sqlite:///{cli.folder / 'other.db'}"
    assert cli("--database-url", url, "users", "add", "anna").code == 0
    assert "anna" in cli("users", "--database-url", url).out
    assert "anna" not in cli("users").out


@pytest.mark.parametrize(
    ("args", "reported"),
    [
        (["lisst"], "Did you mean 'list'?"),
        (["show"], "Missing argument"),
        (["show", "nope"], "there is no source 'nope'"),
        (["list", "--limit", "x"], "--limit must be a whole number"),
        (["list", "--limit", "0"], "--limit must be at least 1"),
        (["list", "--nope"], "No such option"),
        (["list", "extra"], "extra"),
        (["poll"], "--source ID, --url URL, --due or --all"),
        (["poll", "--all", "--due"], "--source ID, --url URL, --due or --all"),
        (["add", "ftp://example.org/x"], "ftp"),
        (["add", "http://example.org/x", "--type", "nope"], "--type"),
        (["add", "http://example.org/x", "--type", "rss", "--interval", "0"], "--interval must be"),
        (["edit", "x", "--clear", "delay", "--delay", "4"], "--delay and --clear delay contradict"),
        (["podcasts", "add", "x", "--max-article-age-days", "0"], "--max-article-age-days must be"),
        (["edit", "nope"], "nothing to change"),
        (["list", "--user", "nobody"], "there is no user 'nobody'"),
        (["list", "--podcast", "nothing"], "there is no podcast 'nothing'"),
        (["list", "--config", "nope.yaml"], "nope.yaml"),
        (["list", "--database-url", "mysql://x"], "database-url"),
        (["import", "nope.opml"], "nope.opml cannot be read"),
        (["import", "."], "cannot be read"),
        (["keys", "set", "y"], "no provider"),
        (["restore", "nope.db", "--yes"], "there is no backup nope.db"),
        (["--log-level", "loud", "list"], "--log-level"),
        (["serve", "--host", "0.0.0.0"], "0.0.0.0"),
        (["serve", "--port", "70000"], "app.server.port"),
    ],
    ids=" ".join,
)
def test_a_usage_error_is_one_line_and_exit_code_2(cli, args, reported):
    cli("migrate")
    assert reported in cli.fails(*args, code=2, given="key\n")


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("app: [", "headwater.yaml"),
        ("app: {source: {max-failures: many}}", "app.source.max-failures"),
        ("app: {nonsense: 1}", "app.nonsense"),
        ("\x00", "headwater.yaml"),
    ],
)
def test_g1_an_invalid_configuration_is_one_line_and_exit_code_2(cli, text, reported):
    (cli.folder / "headwater.yaml").write_text(text)
    assert reported in cli.fails("list", code=2)


def test_k6_a_damaged_database_refers_to_doctor_and_is_left_unchanged(cli):
    file = cli.folder / "data" / "headwater.db"
    file.parent.mkdir()
    file.write_bytes(b"this is no database, whatever its name says" * 100)
    before = file.read_bytes()
    assert "headwater doctor" in cli.fails("list", code=1)
    assert "headwater doctor" in cli.fails("serve", code=1)
    assert file.read_bytes() == before


def test_k7_a_newer_schema_is_refused(cli):
    cli("migrate")
    with sqlite3.connect(cli.folder / "data" / "headwater.db") as database:
        database.execute("INSERT INTO schema_version VALUES (9999)")
    database.close()
    assert "upgrade headwater" in cli.fails("list", code=1)


def test_a_folder_that_cannot_be_created_is_a_one_line_error(cli):
    (cli.folder / "taken").write_text("a file")
    url = "https://example.org/feed"
    option = ("--database-url", "sqlite:///taken/x.db")
    assert "taken" in cli.fails(*option, "add", url, "--type", "rss", code=1)


def test_h4_any_exception_is_a_one_line_error(cli, monkeypatch):
    def explode(*_):
        raise RuntimeError("two\nlines with\x1b[31m colour and ?token=abc")

    monkeypatch.setattr("headwater.settings.load_settings", lambda **_: explode())
    line = cli.fails("list", code=1)
    assert line == "RuntimeError: two lines with [31m colour and ?token=***"


def test_errors_from_a_group_are_one_line(cli, monkeypatch):
    def explode(**_):
        raise ExceptionGroup("many", [UsageError("the first of them"), ValueError("b")])

    monkeypatch.setattr("headwater.settings.load_settings", explode)
    assert cli.fails("list", code=2) == "the first of them"


def test_an_interrupt_prints_no_traceback(cli, monkeypatch):
    def interrupt(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr("headwater.settings.load_settings", interrupt)
    said = cli("list")
    assert (said.code, said.out, said.err) == (130, "", "")


def test_a_cancelled_command_counts_as_interrupted():
    async def cancelled():
        raise asyncio.CancelledError

    with pytest.raises(KeyboardInterrupt):
        run(cancelled())


def test_an_interrupt_at_a_prompt_prints_no_traceback(cli, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    cli("users", "add", "anna")
    monkeypatch.setattr("typer._click.termui.visible_prompt_func", interrupt)
    assert cli("users", "remove", "anna").code == 130
    assert len(cli("users").rows) == 2


def test_a_closed_output_pipe_is_not_reported_as_an_error(cli, capsys, monkeypatch):
    cli("migrate")

    class ClosedPipe:
        def isatty(self):
            return False

        def write(self, _):
            raise BrokenPipeError(32, "Broken pipe")

        def flush(self):
            raise BrokenPipeError(32, "Broken pipe")

        def fileno(self):
            raise OSError("none")

    monkeypatch.setattr("sys.stdout", ClosedPipe())
    assert main(["users"]) == 1
    assert capsys.readouterr().err == ""


@pytest.mark.system
def test_the_module_is_the_program(tmp_path):
    said = process(tmp_path, "--version")
    assert (said.code, said.out, said.err) == (0, f"headwater {__version__}\n", "")
