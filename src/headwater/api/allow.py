"""Which methods a path takes, for the answer to one that it does not take."""

import re
from typing import Any

ENDLESS = "/api/events"  # GET goes on for ever there, and a head alone would be no answer


def allowed_methods(document: dict[str, Any], path: str) -> list[str]:
    """The methods of a path, from the OpenAPI document; a literal path goes before a pattern."""
    fitting = [template for template in document["paths"] if _pattern(template).fullmatch(path)]
    if not fitting:
        return []
    nearest = min(fitting, key=lambda template: template.count("{"))
    methods = {method.upper() for method in document["paths"][nearest]}
    also = {"HEAD"} if "GET" in methods and path != ENDLESS else set()
    return sorted(methods | also)


def _pattern(template: str) -> re.Pattern[str]:
    # the module keeps what it has compiled
    return re.compile("[^/]+".join(map(re.escape, re.split(r"\{\w+\}", template))))
