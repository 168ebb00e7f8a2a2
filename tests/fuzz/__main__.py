"""Fuzzes one target with atheris: `python -m tests.fuzz TARGET [libFuzzer options]`.

Needs `pip install atheris`. Starts from the seeds and, if HEADWATER_CORPUS names a folder of
real documents, from those as well; stores new inputs in the folder FUZZ_FOLDER, if that is set.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from random import Random

from tests.fuzz.mutations import changed

_CORPUS = {
    "feed": ("feeds", ("xml", "json", "rss", "atom")),
    "page": ("pages", ("html", "htm")),
    "text": ("pages", ("html", "htm")),
    "opml": ("opml", ("opml", "xml")),
    "x_answer": ("xapi", ("json",)),
}
_LARGEST_SEED = 65_536


def main() -> None:
    """Run one target until an option of libFuzzer or a finding ends it."""
    atheris = import_module("atheris")  # no dependency: not available on every platform
    with atheris.instrument_imports(include=["headwater", "tests.fuzz.targets"]):
        from tests.fuzz.seeds import dictionary_of, seeds_of, words_of
        from tests.fuzz.targets import TARGETS
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in TARGETS:
        sys.exit(f"give a target: {', '.join(sorted(TARGETS))}")
    atheris.enabled_hooks.add("str")
    with tempfile.TemporaryDirectory() as folder:
        learnt = Path(os.environ.get("FUZZ_FOLDER", folder), name)
        learnt.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate([*seeds_of(name), *_real(name)]):
            (learnt / f"seed-{number}").write_bytes(seed)
        words = f"-dict={dictionary_of(name)}"
        options = [words, "-timeout=20", f"-max_len={_LARGEST_SEED}", *sys.argv[2:]]
        mutator = Mutator(lambda *given: atheris.Mutate(*given), words_of(name))  # set up late
        command = [sys.argv[0], *options, str(learnt)]
        atheris.Setup(command, TARGETS[name], custom_mutator=mutator)
        atheris.Fuzz()


class Mutator:
    """Alternates structural mutations with libFuzzer's own byte mutations."""

    def __init__(self, bytewise: Callable[[bytes, int], bytes], words: Sequence[bytes]) -> None:
        self._bytewise = bytewise
        self._words = words

    def __call__(self, data: bytes, max_size: int, seed: int) -> bytes:
        """Return a mutated document."""
        if seed % 2:
            return self._bytewise(data, max_size)
        below = Random(seed).randrange
        return changed(data, lambda count: below(max(1, count)), self._words)[:max_size]


def _real(name: str) -> list[bytes]:
    """Documents of the corpus for a target."""
    folder, endings = _CORPUS.get(name, ("", ()))
    root = os.environ.get("HEADWATER_CORPUS")
    if not root or not folder:
        return []
    found = (f for e in endings for f in sorted(Path(root, folder).rglob(f"*.{e}")))
    return [f.read_bytes() for f in found if f.stat().st_size <= _LARGEST_SEED]


if __name__ == "__main__":
    main()
