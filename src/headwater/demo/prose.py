"""Invented news: the same words for the same seed and number, on every machine."""

import hashlib
from collections.abc import Sequence

_WHO = (
    "The harbour office",
    "A night train operator",
    "The river authority",
    "A small publisher",
    "The regional museum",
    "A team of students",
    "The cycling club",
    "The town library",
    "A family brewery",
    "The weather service",
)
_DOES = ("opens", "plans", "tests", "restores", "postpones", "expands", "rethinks", "celebrates")
_WHAT = (
    "the old ferry line",
    "a floating market",
    "its flood gauges",
    "the tram bridge",
    "an oyster reef",
    "a repair workshop",
    "the salmon ladder",
    "open data on water levels",
    "a winter timetable",
    "the lighthouse archive",
)
_WHERE = ("Malmö", "Bregenz", "Gdańsk", "Porto", "Århus", "Győr", "Chur", "Tartu", "Brest", "Cork")
_REMARK = (
    "Neighbours had asked for it since spring",
    "The first visitors are expected on Saturday",
    "Costs stay within what the council had set aside",
    "Two earlier attempts had failed for lack of hands",
    "A decision on the second part follows in autumn",
    "Schools of the district may come free of charge",
    "Critics would have preferred a smaller beginning",
    "The weather held, against all forecasts",
    "Nobody could say how long the work will take",
    "Volunteers carried the last crates by hand",
)
_VOICE = ("said the mayor", "reads a note at the door", "the staff say", "one resident noted")


def title(seed: str, number: int) -> str:
    """A headline."""
    words = (_pick(part, seed, number, salt) for salt, part in enumerate((_WHO, _DOES, _WHAT)))
    return f"{' '.join(words)} in {_pick(_WHERE, seed, number, 3)}"


def sentences(seed: str, number: int, count: int) -> list[str]:
    """The text under the headline; the first sentence has the number, so no two are alike."""
    opening = f"{title(seed, number)}, as notice {number} of {seed} says."
    return [opening, *(_remark(seed, number, salt) for salt in range(1, count))]


def author(seed: str, number: int) -> str:
    """The name of a reporter."""
    first = _pick(("Ada", "Bo", "Carla", "Dmitri", "Edda", "Femi"), seed, number, 100)
    return f"{first} {_pick(('Lind', 'Moreau', 'Nowak', 'Okafor', 'Petit'), seed, number, 101)}"


def _remark(seed: str, number: int, salt: int) -> str:
    remark = _pick(_REMARK, seed, number, 2 * salt)
    return f"{remark}, {_pick(_VOICE, seed, number, 2 * salt + 1)}."


def _pick(choices: Sequence[str], seed: str, number: int, salt: int) -> str:
    digest = hashlib.blake2b(f"{seed}/{number}/{salt}".encode(), digest_size=4).digest()
    return choices[int.from_bytes(digest, "big") % len(choices)]
