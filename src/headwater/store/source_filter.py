"""Which sources a person wants to see, and the conditions that find them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from headwater.model import Health, SourceType
from headwater.rules.lines import lowered

# The SQL twin of `rules.health.health_of`; a test ties the two.
_HEALTH = {
    Health.DISABLED: "NOT s.enabled",
    Health.FAILING: "s.enabled AND s.consecutive_failures > 0",
    Health.NEW: "s.enabled AND s.consecutive_failures <= 0 AND s.last_success_at IS NULL",
    Health.OK: "s.enabled AND s.consecutive_failures <= 0 AND s.last_success_at IS NOT NULL",
}
_BEYOND_ASCII = range(0x80, 0x20000)  # where letters are that have small ones
_MOST_SOUGHT = 2  # capital letters that are looked for one by one
_COLUMNS = ("s.url", "s.label")  # where text is looked for


@dataclass(frozen=True, slots=True)
class SourceFilter:
    """Which sources a person wants to see; None: no matter."""

    podcast_id: str | None = None
    type: SourceType | None = None
    enabled: bool | None = None
    host: str | None = None
    url: str | None = None
    text: str | None = None  # part of URL or label
    health: Health | None = None


def conditions_of(wanted: SourceFilter, kind: str) -> tuple[list[str], dict[str, object]]:
    """What a row of `sources s` must fulfil to fit, and the values bound in it."""
    named: dict[str, tuple[str, object]] = {
        "podcast_id": ("s.podcast_id = :podcast_id", wanted.podcast_id),
        "type": ("s.type = :type", wanted.type and wanted.type.value),
        "enabled": ("s.enabled = :enabled", wanted.enabled),
        "host": ("s.host = :host", wanted.host),
        "url": ("s.url = :url", wanted.url),
    }
    if wanted.text is not None:
        small = lowered(wanted.text)
        named["text"] = (_has_text(kind, small), f"%{like(small)}%")
    given = {name: pair for name, pair in named.items() if pair[1] is not None}
    conditions = [sql for sql, _ in given.values()]
    if wanted.health is not None:
        conditions.append(_HEALTH[wanted.health])
    return conditions, {name: value for name, (_, value) in given.items()}


def _has_text(kind: str, small: str) -> str:
    """The condition that URL or label has a text in it, in whatever case."""
    found = f"lower({{0}}{in_its_language(kind)}) LIKE :text ESCAPE '!'"
    if kind == "sqlite":
        # LIKE takes ASCII letters for small ones itself. Our own function is called for what may
        # need it alone: every call has to win the interpreter back from the event loop.
        found = "{0} LIKE :text ESCAPE '!'"
        if capitals := "".join(_capitals().get(letter, "") for letter in sorted(set(small))):
            found = f"{found} OR {_has_any(capitals)} AND lowered({{0}}) LIKE :text ESCAPE '!'"
    return f"({' OR '.join(found.format(column) for column in _COLUMNS)})"


def in_its_language(kind: str) -> str:
    """To be put behind a text whose letters count, where the column's bytes do otherwise."""
    return ' COLLATE "default"' if kind == "postgres" else ""


def _has_any(capitals: str) -> str:
    """The condition that a column may have one of these letters, all of them beyond ASCII."""
    if len(capitals) <= _MOST_SOUGHT:
        sought = [f"instr({{0}}, '{letter}')" for letter in capitals]
        return f"({' OR '.join(sought)})"
    return "length(CAST({0} AS BLOB)) > length({0})"


@cache
def _capitals() -> Mapping[str, str]:
    """The letters beyond ASCII that become a given small one."""
    letters = "".join(map(chr, _BEYOND_ASCII))
    found: dict[str, str] = {}
    for capital, small in zip(letters, lowered(letters), strict=True):
        if capital != small:
            found[small] = found.get(small, "") + capital
    return found


def like(text: str) -> str:
    """Text as part of a LIKE pattern that is escaped with `!`."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
