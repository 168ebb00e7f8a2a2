"""The documents match the program: commands, options, files, settings and links exist."""

import ast
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headwater import __version__
from headwater.cli.program import create_program
from headwater.model import Post, SkipReason, SourceType
from headwater.operations.bulk_changes import BatchAction
from headwater.rules.admission import timestamp
from headwater.rules.digest import articles_from
from headwater.settings.configuration_keys import KEYS, dotted
from headwater.source_settings import AggregateBy
from tests.factories import NOW, a_policy, a_post, a_source

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "headwater"
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md")))
# the documented commands
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
# folders of an author's machine; a reader's machine has others
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
    """The words after every `headwater`, without comments and pipes."""
    for code in code_in(text):
        for found in _CALL.findall(re.split(r"\s+#|\s[<|]\s", code)[0]):
            yield found.split()


def commands() -> dict[str, Any]:
    program = create_program()
    program.load_all()
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
    page = text_of(DOCS / "command-line.md") + text_of(DOCS / "source-settings.md")
    program = create_program()
    program.load_all()
    below = [
        two for one in program.commands.values() for two in getattr(one, "commands", {}).values()
    ]
    for command in (program, *program.commands.values(), *below):
        for option in options_of(command):
            if option.startswith("--"):
                assert re.search(rf"{option}(?![\w-])", page), f"{command.name} {option}"


@names
def test_relative_links_resolve(page):
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


def test_every_test_that_is_named_exists():
    defined = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", text_of(file), re.MULTILINE)
    }
    named = set(re.findall(r"`(test_\w+)`", "".join(map(text_of, PAGES))))
    assert named <= defined, sorted(named - defined)


def test_every_file_in_the_architecture_page_exists():
    text = text_of(DOCS / "architecture.md")
    found = {file for _, block in _FENCED.findall(text) for file in _FILE.findall(block)}
    whole = {file for file in found if "/" in file}
    assert len(whole) > 5
    for file in whole:
        assert (PACKAGE / file).is_file(), file


@names
def test_every_setting_that_is_named_exists(page):
    known = {dotted(path) for path in KEYS}
    for span in _SPAN.findall(_FENCED.sub("", text_of(page))):
        for key in _KEY.findall(span):
            if not key.endswith(".py"):
                fits = any(k == key or k.startswith(f"{key}.") for k in known)
                assert fits, key


def test_decisions_are_numbered_without_gaps_and_state_their_drawbacks():
    files = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    assert [int(file.name[:4]) for file in files] == list(range(1, len(files) + 1))
    for file in files:
        text = text_of(file)
        assert text.startswith(f"# {int(file.name[:4])} "), file.name
        for part in ("**Question.**", "**Answer.**", "**What we gave up.**"):
            assert text.count(part) == 1, f"{file.name}: {part}"


def test_the_index_of_decisions_has_each_once_and_in_order():
    files = sorted(file.name for file in (DOCS / "decisions").glob("[0-9]*.md"))
    index = text_of(DOCS / "decisions" / "README.md")
    assert re.findall(r"^\| \[\d+\]\((.+?)\) \| ", index, re.MULTILINE) == files


def test_the_readme_is_short_and_lists_the_make_targets():
    text = text_of(ROOT / "README.md")
    assert len(text.splitlines()) <= 90
    targets = set(re.findall(r"^([a-z]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    named = re.findall(r"^make ([a-z]+)\b", "\n".join(code_in(text)), re.MULTILINE)
    assert named
    assert set(named) <= targets
    assert "make run" in text


def test_the_changelog_starts_with_this_version_or_unreleased_before_its_release():
    versions = re.findall(r"^## (\S+)", text_of(ROOT / "CHANGELOG.md"), re.MULTILINE)
    assert "Unreleased" not in versions[1:]
    assert versions[0] == ("Unreleased" if ".dev" in __version__ else __version__)


def test_the_developer_pages_name_every_module():
    """Routes, schemas, pages and commands have a file per noun, which needs no description."""
    described = "".join(
        text_of(DOCS / page) for page in ("architecture.md", "cluster.md", "simulating.md")
    )
    by_noun = ("api/routes/", "api/schemas/", "web/", "cli/", "demo/", "simulation/", "client/")
    modules = [path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"]
    paths = {path.relative_to(PACKAGE).as_posix() for path in modules}
    unnamed = {path for path in paths if f"{path.rpartition('/')[2]}`" not in described}
    assert sorted(path for path in unnamed if not path.startswith(by_noun)) == []


def test_the_glossary_is_in_order():
    terms = re.findall(r"^- \*\*(.+?)\*\*: ", text_of(DOCS / "glossary.md"), re.MULTILINE)
    assert len(terms) > 50
    assert terms == sorted(set(terms))


def test_the_content_page_has_every_skip_reason_in_its_order():
    page = text_of(DOCS / "content.md")
    assert re.findall(r"^\| `(\w+)` \| ", page, re.MULTILINE) == [str(r) for r in SkipReason]


def test_the_digest_on_the_content_page_agrees_with_aggregation():
    bodies = ("The bridge at Old Mill is closed.", "Water level 4.2 m and rising.\nMore at noon.")
    hours = (datetime(2026, 2, 16, 15, 30, tzinfo=UTC), datetime(2026, 2, 16, 8, tzinfo=UTC))
    posts = [
        a_post(body=body, published_at=at, author="@riverwatch")
        for body, at in zip(bodies, hours, strict=True)
    ]
    assert _shown_article(posts, AggregateBy.SOURCE) in _content_blocks()


def test_the_thread_on_the_content_page_agrees_with_aggregation():
    bodies = ("Water level 4.2 m and rising.", "The bridge at Old Mill is closed.")
    posts = [
        a_post(
            title=body,
            body=body,
            url=f"https://x.com/riverwatch/status/{1001 + number}",
            published_at=datetime(2026, 2, 16, 8, 5 * number, tzinfo=UTC),
            author="@riverwatch",
            conversation_id="1001",
        )
        for number, body in enumerate(bodies)
    ]
    assert _shown_article(posts, AggregateBy.THREAD) in _content_blocks()


def _shown_article(posts: Sequence[Post], aggregate_by: AggregateBy) -> str:
    """The article of posts on X, as the page shows it."""
    source = a_source(type=SourceType.TWITTER, url="@riverwatch", aggregate_by=aggregate_by)
    (made,) = articles_from(source, posts, NOW, a_policy())
    assert made.published_at is not None
    return (
        f"title        {made.title}\nauthor       {made.author}\nurl          {made.url}\n"
        f"publishedAt  {timestamp(made.published_at)}\nbody:\n{made.body}\n"
    )


def _content_blocks() -> list[str]:
    return [block for _, block in _FENCED.findall(text_of(DOCS / "content.md"))]


def _anchor(heading: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_u9_the_page_lists_every_action_of_the_audit_log():
    text = text_of(DOCS / "accounts.md").partition("- **action**:")[2].partition("- **target**")[0]
    batches = {f"sources.{action}" for action in BatchAction}
    used = set(audit_actions())
    assert "sources." in used  # the beginning of a name that ends with the action of a batch
    assert sorted(_SPAN.findall(text)) == sorted(used - {"sources."} | batches)


def audit_actions() -> Iterator[str]:
    """The texts in the argument `action` of calls that describe a change."""
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(text_of(file))):
            match node:
                case (
                    ast.Call(func=ast.Name("describe" | "_describe"), args=[action, *_])
                    | ast.Call(
                        func=ast.Attribute(ast.Attribute(attr="audit" | "_audit"), "add"),
                        args=[_, action, *_],
                    )
                ):
                    texts = (part for part in ast.walk(action) if isinstance(part, ast.Constant))
                    yield from (str(part.value) for part in texts)
