"""The part of the Kubernetes API (1.30) that the manifests use: names and types of fields.

Written by hand from its reference. An unknown field is an error, as for an API server that
validates strictly; a field that a manifest begins to use is added here. A type is a Python type, a
pattern of texts, a list of one type, or fields by name; `*` stands for any name.
"""

import re
from collections.abc import Iterator
from typing import Any

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9][-a-z0-9]*-")
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")
_PATH = re.compile(r"/.*")
_QUANTITY = re.compile(r"[0-9]+(m|Ki|Mi|Gi)?")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_LABELS = {"*": re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")}
_SELECTOR = {"matchLabels": _LABELS}
_METADATA = {"name": _NAME, "generateName": _PREFIX, "labels": _LABELS}
_PROBE = {
    "httpGet": {"path": _PATH, "port": _PORT_NAME, "httpHeaders": [{"name": str, "value": str}]},
    "periodSeconds": int,
    "timeoutSeconds": int,
    "failureThreshold": int,
}
_AMOUNTS = {"cpu": _QUANTITY, "memory": _QUANTITY}
_CONTAINER = {
    "name": _NAME,
    "image": str,
    "args": [str],
    "envFrom": [{"configMapRef": {"name": _NAME}}],
    "env": [{"name": _VARIABLE, "value": str, "valueFrom": {"fieldRef": {"fieldPath": str}}}],
    "ports": [{"name": _PORT_NAME, "containerPort": int}],
    "lifecycle": {"preStop": {"exec": {"command": [str]}}},
    "startupProbe": _PROBE,
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "resources": {"requests": _AMOUNTS, "limits": _AMOUNTS},
    "securityContext": {
        "allowPrivilegeEscalation": bool,
        "readOnlyRootFilesystem": bool,
        "capabilities": {"drop": [str]},
    },
    "volumeMounts": [{"name": _NAME, "mountPath": _PATH, "readOnly": bool}],
}
_POD = {
    "restartPolicy": re.compile("Always|OnFailure|Never"),
    "automountServiceAccountToken": bool,
    "securityContext": {
        "runAsNonRoot": bool,
        "runAsUser": int,
        "runAsGroup": int,
        "fsGroup": int,
        "seccompProfile": {"type": re.compile("RuntimeDefault|Localhost|Unconfined")},
    },
    "terminationGracePeriodSeconds": int,
    "topologySpreadConstraints": [
        {
            "maxSkew": int,
            "topologyKey": str,
            "whenUnsatisfiable": re.compile("DoNotSchedule|ScheduleAnyway"),
            "labelSelector": _SELECTOR,
        }
    ],
    "containers": [_CONTAINER],
    "volumes": [
        {
            "name": _NAME,
            "secret": {"secretName": _NAME, "defaultMode": int},
            "emptyDir": {"sizeLimit": _QUANTITY},
        }
    ],
}
_TEMPLATE = {"metadata": _METADATA, "spec": _POD}
_UPDATE = {"maxUnavailable": int, "maxSurge": int}
_SPECS: dict[tuple[str, str], dict[str, Any]] = {
    ("apps/v1", "Deployment"): {
        "spec": {
            "replicas": int,
            "revisionHistoryLimit": int,
            "strategy": {"type": re.compile("RollingUpdate"), "rollingUpdate": _UPDATE},
            "selector": _SELECTOR,
            "template": _TEMPLATE,
        }
    },
    ("batch/v1", "Job"): {
        "spec": {"backoffLimit": int, "ttlSecondsAfterFinished": int, "template": _TEMPLATE}
    },
    ("v1", "Service"): {
        "spec": {
            "selector": _LABELS,
            "ports": [{"name": _PORT_NAME, "port": int, "targetPort": _PORT_NAME}],
        }
    },
    ("policy/v1", "PodDisruptionBudget"): {"spec": {"maxUnavailable": int, "selector": _SELECTOR}},
    ("v1", "ConfigMap"): {"data": {"*": str}},
    ("v1", "Secret"): {"type": re.compile("Opaque"), "stringData": {"*": str}},
}


def faults(manifest: dict[str, Any]) -> list[str]:
    """The paths of unknown fields, and of values of another type."""
    kind = manifest["apiVersion"], manifest["kind"]
    if kind not in _SPECS:
        return ["kind"]
    fields = {"apiVersion": str, "kind": str, "metadata": _METADATA, **_SPECS[kind]}
    return list(_faults(manifest, fields, ""))


def _faults(value: Any, wanted: Any, path: str) -> Iterator[str]:
    if isinstance(wanted, dict) and isinstance(value, dict):
        for name, one in value.items():
            yield from _faults(one, wanted.get(name, wanted.get("*")), f"{path}.{name}")
    elif isinstance(wanted, list) and isinstance(value, list):
        for number, one in enumerate(value):
            yield from _faults(one, wanted[0], f"{path}[{number}]")
    elif isinstance(wanted, re.Pattern) and isinstance(value, str):
        if not wanted.fullmatch(value):
            yield path
    elif type(value) is not wanted:
        yield path
