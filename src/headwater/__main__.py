"""`python -m headwater` and the console script: import the program, then run it."""

import signal
import sys

from headwater import __version__


def main() -> int:
    """Run the command line; Ctrl-C during the imports ends the process without a message."""
    if sys.argv[1:] == ["--version"]:  # needs none of the imports
        sys.stdout.write(f"headwater {__version__}\n")
        return 0
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from headwater.cli import main as run  # after the signal handler: importing takes a moment

    signal.signal(signal.SIGINT, signal.default_int_handler)
    return run()


if __name__ == "__main__":
    sys.exit(main())
