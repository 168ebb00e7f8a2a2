"""Loaded by schemathesis: examples name things that are there, wrong tokens come from elsewhere.

One address that sends twenty wrong tokens within a minute is answered 429 (U1), but the check
that strangers are refused sends more than that and looks for 401.
"""

import itertools
import json
import os

import schemathesis
from requests.adapters import HTTPAdapter

_RIGHT = f"Bearer {os.environ['HEADWATER_TOKEN']}"
_KNOWN = json.loads(os.environ["HEADWATER_KNOWN"])
_numbers = itertools.count(250)
_send = HTTPAdapter.send


# whatever these take away is there for them alone
_SACRIFICES = {
    "deleteUser": {"u": _KNOWN["user"][0]},
    "deletePodcast": {"p": _KNOWN["podcast"][0]},
    "deleteSource": {"s": _KNOWN["source"][0]},
    "changeSources": {"p": "crowd"},
}


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """Put ids that exist in the place of those that the document shows."""
    lasting = {"s": _KNOWN["sources"][0], "a": _KNOWN["articles"][0], "host": _KNOWN["hosts"][0]}
    for item in raw_schema["paths"].values():
        for operation in item.values():
            known = lasting | _SACRIFICES.get(operation["operationId"], {})
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "path" and parameter["name"] in known:
                    parameter["example"] = known[parameter["name"]]
    marking = raw_schema["paths"]["/api/users/{u}/podcasts/{p}/articles/processed"]["post"]
    body = marking["requestBody"]["content"]["application/json"]
    body["example"] = {"ids": _KNOWN["articles"]}


class _FromElsewhere(HTTPAdapter):
    """Sends from an address of loopback that nobody else has."""

    def init_poolmanager(self, *args, **options):
        number = next(_numbers)
        address = f"127.9.{number // 250}.{number % 250 + 1}"
        return super().init_poolmanager(*args, source_address=(address, 0), **options)


def _sent(self, request, *args, **options):
    wrong = request.headers.get("Authorization") not in (None, _RIGHT)
    return _send(_FromElsewhere() if wrong else self, request, *args, **options)


HTTPAdapter.send = _sent  # type: ignore[method-assign]
