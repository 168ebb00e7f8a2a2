"""The documents keep up with the program: commands, options, files, settings and links exist."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from headwater import __version__
from headwater.cli.program import create_program
from headwater.settings.shape import SETTINGS_SHAPE, dotted, leaves

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "headwater"
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md")))
# what the contract promises
PROMISED = """serve poll preview add list show explain edit enable disable remove posts articles
    aggregate import export users podcasts keys tokens config migrate backup restore doctor
    demo simulate""".split()

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CALL = re.compile(r"(?:^|[\s/;|&])headwater((?:[ \t]+\S+)+)")
_FILE = re.compile(r"(?:\w+/)*\w+\.(?:py|sql|md)")
_KEY = re.compile(r"app\.[a-z][\w.<>*-]*\w>?")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
# Where somebody who writes documents may live; a reader's machine has other folders.
_FOREIGN = re.compile(r"(?:^|[\s`(\"'=])(?:/(?:work|home|root|tmp|Users|mnt|srv)\b|\.\./\.\.|~/)")
_WITH_VALUE = {"--config", "--database-url", "--user", "--podcast", "--log-level"}

names = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def code_in(text: str) -> Iterator[str]:
    """Everything set as code: shell blocks, and spans of the text around all blocks."""
    for language, block in _FENCED.findall(text):
        if language in ("sh", "ini"):
            yield from block.splitlines()
    yield from _SPAN.findall(_FENCED.sub("", text))


def calls_in(text: str) -> Iterator[list[str]]:
    """The words behind every `headwater`, without comments and what follows a pipe."""
    for code in code_in(text):
        for found in _CALL.findall(re.split(r"\s+#|\s[<|]\s", code)[0]):
            yield found.split()


def commands() -> dict[str, Any]:
    program: Any = typer.main.get_command(create_program())
    return dict(program.commands)


def command_words(words: list[str]) -> list[str]:
    """The words of a call from its command on: global options may come first."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in _WITH_VALUE:
            rest = rest[1:]
    return rest


def options_of(command) -> set[str]:
    spellings = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
    return spellings | _WITH_VALUE | {"--version", "--help", "--install-completion"}


@names
def test_every_command_that_is_named_exists(page):
    known = commands()
    for words in calls_in(text_of(page)):
        rest = command_words(words)
        if rest and re.fullmatch(r"[a-z]+", rest[0]):
            assert rest[0] in known, f"headwater {' '.join(words)}"


@names
def test_every_option_that_is_named_exists(page):
    known = commands()
    for words in calls_in(text_of(page)):
        rest = command_words(words)
        if not rest or rest[0] not in known:
            continue
        command = known[rest[0]]
        below = getattr(command, "commands", {})
        if len(rest) > 1 and re.fullmatch(r"[a-z]+", rest[1]) and below:
            assert rest[1] in below, f"headwater {' '.join(words)}"
            command = below[rest[1]]
        for word in re.findall(r"--[a-z][a-z-]*", " ".join(words)):
            assert word in options_of(command), f"headwater {' '.join(words)}"


@pytest.mark.parametrize("command", PROMISED)
def test_every_command_of_the_contract_is_in_the_program_and_on_its_page(command):
    assert command in commands()
    page = text_of(DOCS / "command-line.md")
    assert re.search(rf"`headwater {command}[ `]", page)


def test_every_command_of_the_program_is_on_its_page():
    page = text_of(DOCS / "command-line.md")
    for name, command in commands().items():
        assert f"`headwater {name}" in page
        for below in getattr(command, "commands", {}):
            if below != "list":  # what the group does by itself
                assert re.search(rf"`headwater {name} {below}[ `]", page)


def test_every_option_of_a_command_is_on_its_page():
    page = text_of(DOCS / "command-line.md")
    for name, command in commands().items():
        for parameter in command.params:
            long = [option for option in parameter.opts if option.startswith("--")]
            if long:
                assert long[0] in page, f"headwater {name} {long[0]}"


@names
def test_relative_links_lead_somewhere(page):
    for target in _LINK.findall(_FENCED.sub("", text_of(page))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert there.is_relative_to(ROOT), target
        if anchor:
            assert anchor in {_anchor(h) for h in _HEADING.findall(text_of(there))}, target


@names
def test_no_path_leads_out_of_the_repository(page):
    found = _FOREIGN.search(text_of(page))
    assert found is None, found


@names
def test_every_file_that_is_named_exists(page):
    for span in _SPAN.findall(_FENCED.sub("", text_of(page))):
        if _FILE.fullmatch(span) and "/" in span:
            assert any((base / span).is_file() for base in (PACKAGE, ROOT, DOCS)), span


def test_every_file_in_the_picture_of_the_architecture_exists():
    text = text_of(DOCS / "architecture.md")
    found = {file for _, block in _FENCED.findall(text) for file in _FILE.findall(block)}
    whole = {file for file in found if "/" in file}
    assert len(whole) > 5
    for file in whole:
        assert (PACKAGE / file).is_file(), file


@names
def test_every_setting_that_is_named_exists(page):
    known = {dotted(path) for path, _ in leaves(SETTINGS_SHAPE)}
    for span in _SPAN.findall(_FENCED.sub("", text_of(page))):
        for key in _KEY.findall(span):
            if not key.endswith(".py"):
                fits = any(k == key or k.startswith(f"{key}.") for k in known)
                assert fits, key


def test_decisions_are_numbered_without_gaps_and_say_what_was_given_up():
    files = sorted((DOCS / "decisions").glob("*.md"))
    assert [int(file.name[:4]) for file in files] == list(range(1, len(files) + 1))
    for file in files:
        text = text_of(file)
        assert text.startswith(f"# {int(file.name[:4])} "), file.name
        for part in ("**Question.**", "**Answer.**", "**What we gave up.**"):
            assert text.count(part) == 1, f"{file.name}: {part}"


def test_the_readme_fits_a_screen_and_names_what_make_can_do():
    text = text_of(ROOT / "README.md")
    assert len(text.splitlines()) <= 90
    targets = set(re.findall(r"^([a-z]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    named = re.findall(r"^make ([a-z]+)\b", "\n".join(code_in(text)), re.MULTILINE)
    assert named
    assert set(named) <= targets
    assert "make run" in text


def test_the_changes_begin_with_this_version():
    versions = re.findall(r"^## (\S+)", text_of(ROOT / "CHANGELOG.md"), re.MULTILINE)
    assert versions[0] == __version__


def _anchor(heading: str) -> str:
    """The name under which a heading can be linked to."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
