"""The files in deploy/ match the program: commands, settings, files and health checks exist."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from headwater.app import master_key_file
from headwater.cli.program import create_program
from headwater.settings import Settings, load_settings
from headwater.settings.configuration_keys import KEYS, SECRET_FILES, SECRET_KEYS, dotted, variable
from tests.cluster.worker_processes import WorkerProcesses, until

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
PROGRAM = "/opt/headwater/.venv/bin/headwater"
DATA_FILES = {".css", ".html", ".js", ".py", ".sql", ".svg", ".typed"}
SECRETS = {"POSTGRES_PASSWORD": "0a" * 24, "APP__ENCRYPTION__MASTER_KEY": "1b" * 32}
# polls, then the database, may take this long each; the rest is for open requests
LONGEST_STOP = 2 * Settings().shutdown_seconds + 10

_VARIABLE = re.compile(r"APP__[A-Z][A-Z_]*[A-Z]")
_INSERTED = re.compile(r"\$\{(\w+)(?::-(.*?)|:\?.*?)?\}")
_SHELL = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")

each_unit = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
each_of_ours = pytest.mark.parametrize("name", ["api", "worker"])


def check_call(words: list[str]) -> None:
    """Let the program parse a call without running it."""
    command: Any = create_program()
    context = command.make_context("headwater", list(words))
    while rest := [*context._protected_args, *context.args]:
        name, command, rest = context.command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


def settings_of(environ: dict[str, str]) -> Settings:
    return load_settings(environ=environ, cwd=DEPLOY)


# --- compose


def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def inserted(text: str, given: dict[str, str]) -> str:
    """A value with variables of the .env file substituted, as compose does it."""
    return _INSERTED.sub(lambda found: given.get(found[1], found[2] or ""), text)


def environment(name: str) -> dict[str, str]:
    found = compose()["services"][name]["environment"]
    return {key: inserted(value, SECRETS) for key, value in found.items()}


def seconds(text: str) -> int:
    return int(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


def test_compose_has_a_database_an_api_and_three_workers():
    services = compose()["services"]
    assert set(services) == {"postgres", "api", "worker"}
    assert services["worker"]["deploy"]["replicas"] == 3
    assert services["api"]["command"][:2] == ["serve", "--no-scheduler"]
    assert services["worker"]["command"] == ["worker"]
    assert all(one["restart"] == "unless-stopped" for one in services.values())


@each_of_ours
def test_commands_of_compose_are_valid(name):
    check_call(compose()["services"][name]["command"])


@each_of_ours
def test_services_of_compose_wait_for_the_database_and_stop_cleanly(name):
    service = compose()["services"][name]
    assert service["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert seconds(service["stop_grace_period"]) >= LONGEST_STOP
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]


def test_settings_in_compose_exist_and_are_the_same_for_all():
    settings = settings_of(environment("api"))
    assert environment("worker") == environment("api")
    key = settings.encryption.master_key
    assert key is not None
    assert key.get_secret_value() == bytes.fromhex(SECRETS["APP__ENCRYPTION__MASTER_KEY"])
    password = SECRETS["POSTGRES_PASSWORD"]
    assert settings.database_url == f"postgresql://headwater:{password}@postgres/headwater"


def test_secrets_of_compose_come_from_outside_and_must_be_given():
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    for name in SECRETS:
        assert f"${{{name}:?" in text
        assert re.search(rf"\b{name}: (?!\$\{{)", text) is None
    assert ".env" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_compose_publishes_one_port_on_loopback_only():
    services = compose()["services"]
    port = Settings().server.port
    assert services["api"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert not any("ports" in services[name] for name in ("postgres", "worker"))
    assert services["postgres"]["networks"] == ["database"]
    assert compose()["networks"]["database"] == {"internal": True}


def test_everything_that_compose_refers_to_exists():
    found = compose()
    for service in found["services"].values():
        assert set(service["networks"]) <= set(found["networks"])
        for volume in service.get("volumes", ()):
            assert volume.split(":")[0] in found["volumes"]
    build = found["services"]["api"]["build"]
    assert (DEPLOY / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()


def test_each_service_of_compose_has_a_health_check():
    services = compose()["services"]
    assert services["postgres"]["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    port = settings_of(environment("worker")).worker.port
    kind, *_, code = services["worker"]["healthcheck"]["test"]
    assert kind == "CMD"
    assert f"http://127.0.0.1:{port}/health" in code
    assert "healthcheck" not in services["api"]
    assert len(instructions("HEALTHCHECK")) == 1  # the image's own check is for the API


@pytest.mark.system
@pytest.mark.postgres
async def test_a_worker_is_healthy_while_it_works(postgres_url, tmp_path):
    processes = WorkerProcesses(postgres_url(), tmp_path)
    _, _, *check = compose()["services"]["worker"]["healthcheck"]["test"]
    log, started = processes.log(0), re.compile(r"metrics url=http://127\.0\.0\.1:(\d+)")

    def is_healthy() -> bool:
        (port,) = started.findall(log.read_text())
        call = [sys.executable, *(word.replace(":8421/", f":{port}/") for word in check)]
        return subprocess.run(call, capture_output=True, check=False).returncode == 0

    try:
        worker = processes.start(APP__WORKER__PORT="0")
        await until(lambda: started.search(log.read_text()), "no port")
        assert is_healthy()
        await until(lambda: "working" in log.read_text(), "no start")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
        assert not is_healthy()
    finally:
        processes.stop_all()


# --- the image


def instructions(wanted: str) -> list[str]:
    """The arguments of an instruction of the Dockerfile, wherever it is given."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    whole = "\n".join(lines).replace("\\\n", " ").splitlines()
    return [line.split(None, 1)[1] for line in whole if line.split(None, 1)[:1] == [wanted]]


def copied() -> Iterator[tuple[list[str], str]]:
    """The files copied from the repository, and their destinations."""
    for line in instructions("COPY"):
        if not line.startswith("--from"):
            *sources, target = line.split()
            yield sources, target


def test_the_image_is_made_in_two_stages_from_pinned_packages():
    assert instructions("FROM") == ["python:3.11-slim AS build", "python:3.11-slim"]
    install = next(line for line in instructions("RUN") if "--requirement" in line)
    assert "--require-hashes --requirement requirements/runtime.txt" in " ".join(install.split())


def test_the_image_runs_the_program_without_privileges_and_stores_in_its_volume():
    assert json.loads(*instructions("ENTRYPOINT")) == ["headwater"]
    check_call(json.loads(*instructions("CMD")))
    assert instructions("USER") == ["8420:8420"]
    assert "--uid 8420" in " ".join(instructions("RUN"))
    assert instructions("EXPOSE") == [str(Settings().server.port)]
    *_, folder = (Path(name) for name in instructions("WORKDIR"))
    volume = Path(*instructions("VOLUME"))
    database = Settings().database_file
    assert database is not None
    assert (folder / database).parent == volume
    assert (folder / master_key_file("postgresql://db/headwater")).parent == volume


def test_files_copied_into_the_image_exist_and_are_not_ignored():
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    allowed = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    sources = {source for found, _ in copied() for source in found}
    assert sources == allowed
    assert all((ROOT / source).exists() for source in sources)


@pytest.mark.system
def test_files_copied_into_the_image_suffice_to_build_the_program(tmp_path):
    context, out = tmp_path / "build", tmp_path / "out"
    for sources, target in copied():
        for source in sources:
            place = context / target / (source if target == "./" else "")
            place.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / source).is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(ROOT / source, place, ignore=ignored)
            else:
                shutil.copy(ROOT / source, place)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "wheel"]
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(out), "."]
    subprocess.run([*pip, *options], cwd=context, check=True, capture_output=True)
    (wheel,) = out.glob("headwater-*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    top = context / "src"
    files = {path for path in top.rglob("*") if path.suffix in DATA_FILES}
    wanted = {file.relative_to(top).as_posix() for file in files if file.is_file()}
    assert len(wanted) > 100
    assert {name for name in wanted if not fnmatch(name, "*.egg-info/*")} <= packed


@pytest.mark.system
def test_the_image_is_healthy_while_the_program_serves(tmp_path):
    (line,) = instructions("HEALTHCHECK")
    _, _, code = json.loads(line.partition("CMD ")[2])
    port = str(Settings().server.port)
    assert code.count(f":{port}/") == 1
    environ = {**os.environ, "http_proxy": "http://127.0.0.1:9"}  # does not apply here
    serve = [sys.executable, "-m", "headwater", "serve", "--port", "0"]
    process = subprocess.Popen(serve, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = next(filter(None, (re.search(r"url=\S+:(\d+)", line) for line in process.stderr)))
        check = [sys.executable, "-c", code.replace(f":{port}/", f":{found[1]}/")]
        assert subprocess.run(check, env=environ, check=False).returncode == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        quiet = subprocess.run(check, env=environ, check=False, capture_output=True)
        assert quiet.returncode == 1
    finally:
        process.kill()
        process.communicate()


# --- systemd


def read_unit(path: Path) -> dict[str, dict[str, list[str]]]:
    """Sections with their keys; a key may be given several times."""
    sections: dict[str, dict[str, list[str]]] = {}
    section: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if header := re.fullmatch(r"\[(\w+)\]", line):
            section = sections.setdefault(header[1], {})
        elif line and not line.startswith("#"):
            key, equals, value = line.partition("=")
            assert equals, line
            assert re.fullmatch(r"[A-Za-z]+", key), line
            section.setdefault(key, []).append(value)
    return sections


def hardening(unit: Path) -> dict[str, list[str]]:
    names = re.compile(r"Protect|Private|Restrict|SystemCall|NoNew|Capab|Ambient|User|UMask|State")
    service = read_unit(unit)["Service"]
    return {key: value for key, value in service.items() if names.match(key)}


def test_there_is_a_unit_for_each_part():
    calls = {unit.name: read_unit(unit)["Service"]["ExecStart"] for unit in UNITS}
    assert calls == {
        "headwater.service": [f"{PROGRAM} serve"],
        "headwater-api.service": [f"{PROGRAM} serve --no-scheduler"],
        "headwater-worker@.service": [f"{PROGRAM} worker"],
    }


@each_unit
def test_commands_of_units_are_valid(unit):
    (call,) = read_unit(unit)["Service"]["ExecStart"]
    program, *words = shlex.split(call)
    assert program == PROGRAM
    check_call(words)


@each_unit
def test_units_stop_the_program_cleanly_and_restart_it_where_that_helps(unit):
    service = read_unit(unit)["Service"]
    assert int(*service["TimeoutStopSec"]) >= LONGEST_STOP
    assert service["Restart"] == ["on-failure"]
    assert service["RestartPreventExitStatus"] == ["2"]
    assert service["OOMPolicy"] == ["continue"]
    assert service["KillMode"] == ["mixed"]
    assert read_unit(unit)["Install"] == {"WantedBy": ["multi-user.target"]}


@each_unit
def test_u6_units_load_secrets_as_credentials(unit):
    names = read_unit(unit)["Service"]["LoadCredential"]
    assert names == ["app.database-url", "app.encryption.master-key"]
    assert set(names) <= {dotted(path) for path in SECRET_KEYS}


@each_unit
def test_c3_units_start_after_the_clock_was_synchronised(unit):
    assert "time-sync.target" in read_unit(unit)["Unit"]["After"][0].split()
    assert "time-sync.target" in read_unit(unit)["Unit"]["Wants"][0].split()


@each_unit
def test_units_restrict_the_program(unit):
    service = read_unit(unit)["Service"]
    assert hardening(unit) == hardening(UNITS[0])
    assert service["ProtectSystem"] == ["strict"]
    assert service["NoNewPrivileges"] == ["yes"]
    assert service["PrivateTmp"] == ["yes"]
    assert service["MemoryMax"]
    assert int(*service["LimitNOFILE"]) >= 4 * Settings().fetch.max_connections
    assert service["WorkingDirectory"] == [f"/var/lib/{service['StateDirectory'][0]}"]
    assert service["EnvironmentFile"][0].removeprefix("-") == "/etc/headwater/headwater.env"


if shutil.which("systemd-analyze"):

    @pytest.mark.system
    def test_systemd_accepts_the_units(tmp_path):
        page = "file:/opt/headwater/docs/deploying.md"
        for unit in UNITS:
            text = unit.read_text(encoding="utf-8")
            assert page in text
            text = text.replace(PROGRAM, sys.executable).replace(page, (ROOT / "docs").as_uri())
            name = unit.name.replace("@", "@1")
            (tmp_path / name).write_text(text, encoding="utf-8")
        verify = ["systemd-analyze", "verify", *map(str, sorted(tmp_path.iterdir()))]
        reported = subprocess.run(verify, capture_output=True, text=True, check=False)
        ours = [line for line in reported.stderr.splitlines() if "headwater" in line]
        assert ours == []


def test_the_environment_file_works_unchanged_and_with_every_line():
    lines = (DEPLOY / "systemd" / "headwater.env").read_text(encoding="utf-8").splitlines()
    plain = [line for line in lines if line.startswith("APP__")]
    every = [line.removeprefix("#") for line in lines if line.startswith(("APP__", "#APP__"))]
    assert len(every) > len(plain)
    for chosen in (plain, every):
        pairs = (line.partition("=") for line in chosen)
        settings_of({name: "".join(shlex.split(value)) for name, _, value in pairs})


# --- the documentation


def pages() -> list[Path]:
    found = [path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".json"]
    return [*found, ROOT / "docs" / "deploying.md"]


def calls_in_the_page() -> Iterator[list[str]]:
    """Calls of the program through a container or as the service's user."""
    text = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
    blocks = "\n".join(_SHELL.findall(text)).replace("\\\n", " ").splitlines()
    start = re.compile(
        r"(?:docker compose run --rm api|docker compose exec (?:-T )?api headwater|^hw) "
    )
    for code in (*blocks, *_SPAN.findall(text)):
        parts = start.split(code.partition(" < ")[0], maxsplit=1)
        if len(parts) == 2:
            yield shlex.split(parts[1])


def test_calls_on_the_page_are_valid():
    calls = list(calls_in_the_page())
    assert ["tokens", "add", "laptop", "--admin"] in calls
    assert len(calls) > 7
    for words in calls:
        check_call(words)


def test_every_variable_that_is_named_is_a_setting():
    known = {variable(path) for path in (*KEYS, *SECRET_FILES)}
    for page in pages():
        for name in _VARIABLE.findall(page.read_text(encoding="utf-8")):
            assert name in known, f"{page.name}: {name}"


def test_every_file_of_the_folder_that_is_named_exists():
    for page in pages():
        for name in re.findall(r"\bdeploy/[\w./@-]*\w", page.read_text(encoding="utf-8")):
            if not name.endswith(("systemd", ".env")):
                assert (ROOT / name).exists(), f"{page.name}: {name}"
