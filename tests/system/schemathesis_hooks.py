"""Loaded by schemathesis: examples use existing ids, wrong tokens come from another address.

One address that sends twenty wrong tokens within a minute gets 429 (U1), but the check of
unauthenticated requests sends more than that and expects 401.
"""

import itertools
import json
import os
import re

import schemathesis
from requests.adapters import HTTPAdapter

_RIGHT = f"Bearer {os.environ['HEADWATER_TOKEN']}"
_KNOWN = json.loads(os.environ["HEADWATER_KNOWN"])
_numbers = itertools.count(250)
_VALID_KEY = re.compile(r"[\x21-\x7e]{1,240}")  # still valid with a number in front
_send = HTTPAdapter.send


# objects deleted by these operations are used by no other
_SACRIFICES = {
    "deleteUser": {"u": _KNOWN["user"][0]},
    "deletePodcast": {"p": _KNOWN["podcast"][0]},
    "deleteSource": {"s": _KNOWN["source"][0]},
    "changeSources": {"p": "crowd"},
}


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """Replace the ids of the document's examples by existing ones."""
    kinds = {"s": "sources", "a": "articles", "i": "posts", "host": "hosts"}
    lasting = {name: _KNOWN[kind][0] for name, kind in kinds.items()}
    for item in raw_schema["paths"].values():
        for operation in item.values():
            known = lasting | _SACRIFICES.get(operation["operationId"], {})
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "path" and parameter["name"] in known:
                    parameter["schema"]["example"] = known[parameter["name"]]
    marking = raw_schema["paths"]["/api/users/{u}/podcasts/{p}/articles/processed"]["post"]
    body = marking["requestBody"]["content"]["application/json"]
    body["examples"] = {"example": {"value": {"ids": _KNOWN["articles"]}}}


@schemathesis.hook
def before_call(context, case, kwargs):
    """Set no delay between polls: a manual poll would wait for it, up to a minute (P10)."""
    _remove_delays(case.body)


def _remove_delays(value):
    if isinstance(value, dict):
        delay = value.get("pollDelaySeconds")
        is_number = isinstance(delay, int | float) and not isinstance(delay, bool)
        if is_number and delay in range(86_401):
            value["pollDelaySeconds"] = 0  # values that the API refuses stay unchanged
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            _remove_delays(part)


class _OtherAddressAdapter(HTTPAdapter):
    """Sends from a loopback address that no other client uses."""

    def init_poolmanager(self, *args, **options):
        number = next(_numbers)
        address = f"127.9.{number // 250}.{number % 250 + 1}"
        return super().init_poolmanager(*args, source_address=(address, 0), **options)


def _sent(self, request, *args, **options):
    """Send a request with an `Idempotency-Key` that no other request has.

    A repeated key replays the creation of an object, also if that was deleted since.
    """
    key = request.headers.get("Idempotency-Key")
    if isinstance(key, str) and _VALID_KEY.fullmatch(key):
        request.headers["Idempotency-Key"] = f"{next(_numbers)}-{key}"
    wrong = request.headers.get("Authorization") not in (None, _RIGHT)
    return _send(_OtherAddressAdapter() if wrong else self, request, *args, **options)


HTTPAdapter.send = _sent  # type: ignore[method-assign]
