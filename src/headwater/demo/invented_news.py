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
# Short and many: texts that share few phrases are not taken for copies of each other (I1).
_KIND = (
    "Patient", "Early", "Former", "Curious", "Retired", "Younger",
    "Local", "Distant", "Careful", "Seasonal", "Cheerful", "Stubborn",
)  # fmt: skip
_PEOPLE = (
    "neighbours", "visitors", "volunteers", "teachers", "engineers", "anglers",
    "commuters", "carpenters", "gardeners", "musicians", "bakers", "pilots",
)  # fmt: skip
_DID = (
    "welcomed", "measured", "repaired", "questioned", "funded", "visited",
    "painted", "mapped", "defended", "counted", "praised", "inspected",
)  # fmt: skip
_THING = (
    "the landing stage", "two water mills", "every towpath", "the boat shed", "a footbridge",
    "the sluice gates", "some nesting boxes", "the quay wall", "a rowing course", "both weirs",
    "the fish market", "a tide clock",
)  # fmt: skip
_WHEN = (
    "on Saturday", "after the flood", "before winter", "at short notice", "last spring",
    "without delay", "in heavy rain", "for a week", "at low tide", "until midnight",
    "between two storms", "despite the fog",
)  # fmt: skip


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
    parts = enumerate((_KIND, _PEOPLE, _DID, _THING, _WHEN))
    words = (_pick(some, seed, number, 1000 + 5 * salt + part) for part, some in parts)
    return f"{' '.join(words)}."


def _pick(choices: Sequence[str], seed: str, number: int, salt: int) -> str:
    digest = hashlib.blake2b(f"{seed}/{number}/{salt}".encode(), digest_size=4).digest()
    return choices[int.from_bytes(digest, "big") % len(choices)]
