"""What is watched of a web page: its parts, ignored lines, what posts contain (W4)."""

import re
from dataclasses import dataclass, field
from enum import StrEnum

from headwater.css_selectors import MAX_SELECTOR, parse_selectors

_MAX_EACH = 20
_MAX_LINE = 300  # characters
# control characters, line separators, lone surrogates: they cannot be stored (M6)
_UNSTORABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Delivery(StrEnum):
    """What later posts of a page contain."""

    PAGE = "page"
    ADDITIONS = "additions"


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """What is watched of a web page; a ValueError names what is wrong."""

    include: tuple[str, ...] = field(
        default=(),
        metadata={
            "description": "CSS selectors of the only elements whose text is taken, instead of the "
            "main text of the page: `tag`, `#id`, `.class`, `[attribute=value]`, `a b`, `a > b`, "
            "`a, b`."
        },
    )
    exclude: tuple[str, ...] = field(
        default=(),
        metadata={"description": "CSS selectors of elements that are removed from the page first."},
    )
    ignore: tuple[str, ...] = field(
        default=(),
        metadata={
            "description": "Lines that may change without a new post, matched as a whole: `*` is "
            "any text, `#` a number, upper and lower case are the same."
        },
    )
    deliver: Delivery = field(
        default=Delivery.PAGE,
        metadata={
            "description": "`page`: each post has the whole text; `additions`: posts after the "
            "first have only what is new."
        },
    )

    def __post_init__(self) -> None:
        """Check all values, which may come from JSON."""
        for name in ("include", "exclude", "ignore"):
            texts = getattr(self, name)
            if not isinstance(texts, tuple) or not all(isinstance(one, str) for one in texts):
                raise ValueError(f"{name} must be a list of texts")
            if len(texts) > _MAX_EACH:
                raise ValueError(f"{name} has at most {_MAX_EACH} items")
            for text in texts:
                check = _check_line if name == "ignore" else _check_selector
                check(name, text)
        if self.deliver not in tuple(Delivery):
            raise ValueError(f"deliver must be {' or '.join(Delivery)}")
        object.__setattr__(self, "deliver", Delivery(self.deliver))


def _check_selector(name: str, text: str) -> None:
    shown = text if len(text) <= MAX_SELECTOR else text[:40] + "…"
    try:
        if _UNSTORABLE.search(text):
            raise ValueError("control characters are not allowed")
        parse_selectors(text)
    except ValueError as error:
        raise ValueError(f"{name}: the selector {shown!r} is invalid: {error}") from error


def _check_line(name: str, text: str) -> None:
    if len(text) > _MAX_LINE:
        raise ValueError(f"{name}: a line has at most {_MAX_LINE} characters")
    if _UNSTORABLE.search(text):
        raise ValueError(f"{name}: {text!r} is not one line of text")
    if not text.strip(" *"):
        raise ValueError(f"{name}: {text!r} would ignore every line, or none")
