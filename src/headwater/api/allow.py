"""Which methods a path takes, for the answer to one that it does not take."""

import re
from typing import Any


def allowed_methods(document: dict[str, Any], path: str) -> list[str]:
    """The methods of a path, from the OpenAPI document; a literal path goes before a pattern."""
    fitting = [template for template in document["paths"] if _pattern(template).fullmatch(path)]
    if not fitting:
        return []
    nearest = min(fitting, key=lambda template: template.count("{"))
    return sorted(method.upper() for method in document["paths"][nearest])


def _pattern(template: str) -> re.Pattern[str]:
    # the module keeps what it has compiled
    return re.compile("[^/]+".join(map(re.escape, re.split(r"\{\w+\}", template))))
