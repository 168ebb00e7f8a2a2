"""The watched parts of a page as form fields: selectors as JSON, lines to ignore, delivery (W4)."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace

from headwater.errors import UsageError
from headwater.source_settings import SETTINGS
from headwater.watch_settings import Delivery, WatchSettings
from headwater.web.forms import one

_NOTHING = WatchSettings()


def watch_fields(watch: WatchSettings | None) -> dict[str, str]:
    """The texts of the fields."""
    watch = watch or _NOTHING
    return {
        "parts": json.dumps(asdict(replace(watch, ignore=(), deliver=Delivery.PAGE))),
        "ignore": "\n".join(watch.ignore),
        "deliver": watch.deliver.value,
    }


def watch_in(fields: Mapping[str, list[str]]) -> WatchSettings | None:
    """The settings in a submitted form; None: the main text of the page, all of it.

    Raises UsageError with the reason, such as an invalid line.
    """
    try:
        parts: WatchSettings = SETTINGS["watch"].from_json(json.loads(one(fields, "parts") or "{}"))
        lines = (line.strip() for line in one(fields, "ignore").splitlines())
        deliver = Delivery(one(fields, "deliver") or Delivery.PAGE)
        watch = replace(parts, ignore=tuple(filter(None, lines)), deliver=deliver)
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(str(error), field="watch") from error
    return None if watch == _NOTHING else watch
