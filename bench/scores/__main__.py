"""All scores against a corpus: `python -m bench.scores [CORPUS]`, else $HEADWATER_CORPUS."""

import os
import sys
from pathlib import Path

from bench.scores import feeds, pages, x

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "corpus"


def main() -> None:
    """Print every score."""
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("HEADWATER_CORPUS", str(BESIDE))
    sys.argv[1:] = [given]
    for part in (feeds, pages, x):
        print(f"== {part.__name__.rpartition('.')[2]}")
        part.main()
        print()


if __name__ == "__main__":
    main()
