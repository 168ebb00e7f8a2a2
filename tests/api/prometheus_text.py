"""A strict parser of Prometheus' text format, version 0.0.4."""

import re
from dataclasses import dataclass, field

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(?:,|$)')
_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}
Labels = tuple[tuple[str, str], ...]


@dataclass
class MetricFamily:
    """A metric family as it was served."""

    kind: str
    meaning: str
    values: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def __getitem__(self, labels: str) -> float:
        """The sum of all samples with these labels, such as `type=rss`."""
        wanted = {tuple(one.split("=")) for one in labels.split(",") if one}
        fitting = [v for (suffix, has), v in self.values.items() if wanted <= set(has)]
        assert fitting, f"nothing has {labels}"
        return sum(fitting)


def read(text: str) -> dict[str, MetricFamily]:
    """All families of a scrape."""
    assert text.endswith("\n")
    found: dict[str, MetricFamily] = {}
    meaning = name = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, meaning = line.removeprefix("# HELP ").split(" ", 1)
            assert name not in found, f"{name} comes twice"
        elif line.startswith("# TYPE "):
            typed, kind = line.removeprefix("# TYPE ").split(" ")
            assert typed == name
            found[name] = MetricFamily(kind, meaning)
        else:
            _take(found[name], name, line)
    for name, family in found.items():
        if family.kind == "histogram":
            _check_histogram(name, family)
    return found


def _take(family: MetricFamily, name: str, line: str) -> None:
    sample = _SAMPLE.fullmatch(line)
    assert sample is not None, line
    full, inside, value = sample.groups()
    suffix = full.removeprefix(name)
    assert suffix in _SUFFIXES[family.kind], line
    labels = tuple(_LABEL.findall(inside or ""))
    assert _LABEL.sub("", inside or "") == "", line
    assert (suffix, labels) not in family.values, f"{line} comes twice"
    family.values[suffix, labels] = float(value)


def _check_histogram(name: str, family: MetricFamily) -> None:
    for (suffix, labels), count in family.values.items():
        if suffix != "_count":
            continue
        buckets = [
            (float(dict(has)["le"]), value)
            for (other, has), value in family.values.items()
            if other == "_bucket" and set(labels) <= set(has)
        ]
        bounds, counts = [b for b, _ in buckets], [c for _, c in buckets]
        assert bounds == sorted(bounds), name
        assert counts == sorted(counts), f"{name} is not cumulative"
        assert (bounds[-1], counts[-1]) == (float("inf"), count), name
