"""A command imports only what it needs: the command table and the excluded libraries."""

import json

import pytest

from headwater.cli.program import create_program
from tests.cli.command_runner import process, python

HEAVY = """aiodns asyncio brotli cryptography fastapi headwater.api headwater.engine headwater.fetch
    headwater.settings headwater.store headwater.web jinja2 lxml OpenSSL psycopg rich
    starlette trafilatura uvicorn uvloop yaml zstandard""".split()
NEEDED_BY_LIST = {"asyncio", "headwater.settings", "headwater.store", "uvloop"}
LOADED = """
import json, runpy, sys

def loaded(names):  # from files: placeholders have none
    modules = {{name: sys.modules[name] for name in names if name in sys.modules}}
    return [name for name, module in modules.items() if module.__spec__.origin is not None]
"""
RUN = (
    LOADED
    + """
sys.argv = ["headwater", *{args}]
try:
    runpy.run_module("headwater", run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(loaded({heavy})))
"""
)
PARAMETERS = (
    LOADED
    + """
from headwater.cli.deferred_imports import defer_imports
from headwater.cli.program import create_program

def read(command, path):
    with command.make_context(path, [], resilient_parsing=True) as context:
        shown = [param.get_help_record(context) or param.name for param in command.params]
    yield path, command.help, shown
    for name, part in getattr(command, "commands", {{}}).items():
        yield from read(part, path + " " + name)

program = create_program()
if {deferred}:
    defer_imports()
program.load_all()
heavy = loaded({heavy})
print(json.dumps({{"heavy": heavy, "parameters": list(read(program, "headwater"))}}))
"""
)


def heavy_modules(folder, *args, **variables):
    """The heavy modules that a call imports, in a new process."""
    code = RUN.format(args=list(args), heavy=HEAVY)
    done = python(folder, "-c", code, **variables)
    assert done.err == ""
    return set(json.loads(done.out.splitlines()[-1]))


@pytest.mark.parametrize("args", [("--version",), ("--help",), ("list", "--version")], ids=" ".join)
def test_version_and_help_import_no_library_but_the_argument_parser(tmp_path, args):
    assert heavy_modules(tmp_path, *args) == set()


def test_completion_of_commands_imports_no_command(tmp_path):
    variables = {"_HEADWATER_COMPLETE": "complete_bash", "COMP_WORDS": "headwater l"}
    assert heavy_modules(tmp_path, COMP_CWORD="1", **variables) == set()


@pytest.mark.parametrize("command", ["edit", "list"])
def test_completion_of_options_imports_no_package_of_the_service(tmp_path, command):
    words = f"headwater {command} --"
    variables = {"_HEADWATER_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "2"}
    assert heavy_modules(tmp_path, **variables) == set()


def test_deferred_imports_leave_the_parameters_of_every_command_as_they_are(tmp_path):
    deferred, complete = (
        json.loads(python(tmp_path, "-c", PARAMETERS.format(deferred=deferred, heavy=HEAVY)).out)
        for deferred in (True, False)
    )
    assert deferred["heavy"] == []
    assert "headwater.store" in complete["heavy"]
    assert deferred["parameters"] == complete["parameters"]


def test_list_imports_neither_network_nor_web_framework_nor_parsers(tmp_path):
    assert process(tmp_path, "migrate").code == 0
    assert heavy_modules(tmp_path, "list") <= NEEDED_BY_LIST


def test_the_table_repeats_the_first_sentence_of_every_command():
    listed, loaded = create_program(), create_program()
    loaded.load_all()
    assert listed.commands.keys() == loaded.commands.keys()
    for name, command in loaded.commands.items():
        assert listed.commands[name].help == (command.help or "").partition("\n")[0]
