"""The manifests in deploy/kubernetes match the program and the image, and refer to each other."""

import copy
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from headwater.api.middleware.authentication import OPEN_PATHS
from headwater.settings import Settings, load_settings
from tests.kubernetes_fields import faults
from tests.test_deploy import LONGEST_STOP, check_call, instructions

FOLDER = Path(__file__).resolve().parents[1] / "deploy" / "kubernetes"
MASTER_KEY = "1b" * 32
DATABASE_URL = "postgresql://headwater:secret@postgres.example/headwater"


def manifests() -> list[dict[str, Any]]:
    files = [file for file in sorted(FOLDER.glob("*.yaml")) if file.stem != "kustomization"]
    texts = [file.read_text(encoding="utf-8") for file in files]
    return [document for text in texts for document in yaml.safe_load_all(text)]


def one(kind: str, name: str) -> dict[str, Any]:
    """The manifest of a kind with a name, or with the beginning of a generated one."""
    (found,) = (
        m
        for m in manifests()
        if m["kind"] == kind
        and name in (m["metadata"].get("name"), m["metadata"].get("generateName"))
    )
    return found


def pods() -> dict[str, dict[str, Any]]:
    """The specifications of all pods, by component."""
    return {
        m["metadata"]["labels"]["app.kubernetes.io/component"]: m["spec"]["template"]["spec"]
        for m in manifests()
        if "template" in m.get("spec", {})
    }


def container(component: str) -> dict[str, Any]:
    (found,) = pods()[component]["containers"]
    result: dict[str, Any] = found
    return result


def settings_in(component: str, folder: Path, pod_ip: str = "10.1.2.3") -> Settings:
    """The settings of a container, with its Secret in a folder."""
    (folder / "database-url").write_text(DATABASE_URL)
    (folder / "master-key").write_text(MASTER_KEY)
    environ = dict(one("ConfigMap", "headwater")["data"])
    for variable in container(component).get("env", ()):
        if "value" in variable:
            environ[variable["name"]] = variable["value"].replace("$(POD_IP)", pod_ip)
    (mount,) = (m for m in container(component)["volumeMounts"] if m["name"] == "secrets")
    environ = {k: v.replace(mount["mountPath"], str(folder)) for k, v in environ.items()}
    return load_settings(environ=environ, cwd=folder)


each_pod = pytest.mark.parametrize("component", ["worker", "api", "migrate"])


def test_there_are_workers_servers_and_a_migration():
    assert set(pods()) == {"worker", "api", "migrate"}
    assert {name: container(name)["args"][0] for name in pods()} == {
        "worker": "worker",
        "api": "serve",
        "migrate": "migrate",
    }


@each_pod
def test_commands_are_valid(component):
    check_call(container(component)["args"])


@each_pod
@pytest.mark.parametrize("pod_ip", ["10.1.2.3", "fd00::12"])
def test_settings_are_valid_and_secrets_come_from_files(component, pod_ip, tmp_path):
    settings = settings_in(component, tmp_path, pod_ip)
    key = settings.encryption.master_key
    assert settings.database_url == DATABASE_URL
    assert key is not None
    assert key.get_secret_value() == bytes.fromhex(MASTER_KEY)
    if component == "api":
        assert pod_ip in settings.server.allowed_hosts


def test_the_secret_has_the_files_that_settings_name():
    names = {
        Path(value).name
        for key, value in one("ConfigMap", "headwater")["data"].items()
        if key.endswith("_FILE")
    }
    assert set(one("Secret", "headwater")["stringData"]) == names
    page = (FOLDER.parents[1] / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    assert all(f"--from-literal={name}=" in page for name in names)


@each_pod
def test_pods_run_without_privileges_as_the_user_of_the_image(component):
    pod, security = pods()[component], container(component)["securityContext"]
    uid, gid = map(int, instructions("USER")[0].split(":"))
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": uid,
        "runAsGroup": gid,
        "fsGroup": gid,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert security == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    mode = next(v["secret"]["defaultMode"] for v in pod["volumes"] if v["name"] == "secrets")
    assert mode == 0o440
    assert {m["name"] for m in container(component)["volumeMounts"]} == {
        v["name"] for v in pod["volumes"]
    }
    assert {"/tmp", *instructions("VOLUME")} <= {
        m["mountPath"] for m in container(component)["volumeMounts"]
    }


@each_pod
def test_resources_are_requested_and_memory_is_limited(component):
    resources = container(component)["resources"]
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert set(resources["limits"]) == {"memory"}


def test_probes_ask_for_health_and_readiness(tmp_path):
    worker, api = container("worker"), container("api")
    assert worker["ports"] == [
        {"name": "health", "containerPort": settings_in("worker", tmp_path).worker.port}
    ]
    assert api["ports"] == [{"name": "http", "containerPort": Settings().server.port}]
    for probe, path in (("startup", "health"), ("liveness", "health"), ("readiness", "ready")):
        of_worker, of_api = (one[f"{probe}Probe"]["httpGet"] for one in (worker, api))
        assert of_worker == {"path": f"/{path}", "port": "health"}
        assert (of_api["path"], of_api["port"]) == (f"/api/{path}", "http")
        assert of_api["path"] in OPEN_PATHS
        assert of_api["httpHeaders"] == [{"name": "Host", "value": "localhost"}]  # U3


def test_pods_have_the_time_that_stopping_takes(tmp_path):
    longest = LONGEST_STOP
    assert settings_in("worker", tmp_path).shutdown_seconds == Settings().shutdown_seconds
    assert pods()["worker"]["terminationGracePeriodSeconds"] >= longest
    _, seconds = container("api")["lifecycle"]["preStop"]["exec"]["command"]
    assert pods()["api"]["terminationGracePeriodSeconds"] >= longest + int(seconds)


@pytest.mark.parametrize("component", ["worker", "api"])
def test_selectors_match_the_labels_of_pods(component):
    deployment = one("Deployment", f"headwater-{component}")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    budget = one("PodDisruptionBudget", f"headwater-{component}")
    assert budget["spec"] == {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    (spread,) = pods()[component]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == labels
    if component == "api":
        service = one("Service", "headwater-api")["spec"]
        assert service["selector"] == labels
        assert service["ports"] == [{"name": "http", "port": 8420, "targetPort": "http"}]


def test_the_kustomization_applies_everything_but_the_secret_and_the_job():
    text = (FOLDER / "kustomization.yaml").read_text(encoding="utf-8")
    found = yaml.safe_load(text)
    assert set(found["resources"]) == {file.name for file in FOLDER.glob("*.yaml")} - {
        "kustomization.yaml",
        "secret.example.yaml",
        "migrate.yaml",
    }
    assert {one["image"] for pod in pods().values() for one in pod["containers"]} == {
        found["images"][0]["name"]
    }


def test_calls_on_the_page_are_valid():
    text = (FOLDER.parents[1] / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    calls = [
        line.partition(" -- headwater ")[2].partition(" #")[0].rstrip("`.,; ")
        for line in text.splitlines()
        if " -- headwater " in line
    ]
    assert len(calls) >= 4
    for call in calls:
        check_call(shlex.split(call.partition("`")[0]))


@pytest.mark.parametrize("manifest", manifests(), ids=lambda m: m["kind"])
def test_manifests_have_only_fields_that_kubernetes_knows(manifest):
    assert faults(manifest) == []


def test_unknown_fields_and_wrong_types_are_found():
    worker = copy.deepcopy(one("Deployment", "headwater-worker"))
    container = worker["spec"]["template"]["spec"]["containers"][0]
    worker["spec"]["replicas"] = "3"
    worker["metadata"]["labels"]["odd"] = "no spaces"
    container["readynessProbe"] = container.pop("readinessProbe")
    container["env"].append({"name": "APP__WORKER__PORT", "value": 8421})
    assert sorted(faults(worker)) == [
        ".metadata.labels.odd",
        ".spec.replicas",
        ".spec.template.spec.containers[0].env[2].value",
        ".spec.template.spec.containers[0].readynessProbe",
    ]
    assert faults({**worker, "apiVersion": "apps/v1beta1"}) == ["kind"]
