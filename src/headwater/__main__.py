"""`python -m headwater` is the same as `headwater`."""

import sys

from headwater.cli import main

if __name__ == "__main__":
    sys.exit(main())
