"""Headers: those that are sent, checked, and those that came, by any spelling of their names."""

from collections.abc import Iterator, Mapping
from functools import cached_property


class Headers(Mapping[str, str]):
    """The headers of an answer; a name may have come several times."""

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        self._raw = raw

    @cached_property
    def _values(self) -> dict[str, list[str]]:
        values: dict[str, list[str]] = {}
        for name, value in self._raw:
            values.setdefault(_text(name).lower(), []).append(_text(value))
        return values

    def getall(self, key: str, default: tuple[str, ...] = ()) -> list[str] | tuple[str, ...]:
        """All values of a header."""
        return self._values.get(key.lower(), default)

    def __getitem__(self, key: str) -> str:
        return self._values[key.lower()][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def lines(headers: Mapping[str, str]) -> str:
    """Headers as they are sent; a value that would break out of its line is a ValueError (N6)."""
    if not headers:
        return ""
    text = "\n".join([f"{name}: {value}" for name, value in headers.items()])
    if text.count("\n") >= len(headers) or "\r" in text or "\0" in text:
        raise ValueError("a header has a line break in it")
    return text.replace("\n", "\r\n") + "\r\n"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
