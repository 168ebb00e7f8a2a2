"""`python -m headwater` and the console script: load the program, then run it."""

import signal
import sys


def main() -> int:
    """Run the command line; Ctrl-C while it loads ends it without a word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from headwater.cli import main as run  # loading takes a moment, and Ctrl-C must work in it

    signal.signal(signal.SIGINT, signal.default_int_handler)
    return run()


if __name__ == "__main__":
    sys.exit(main())
