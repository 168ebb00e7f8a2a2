"""All measurements: `python -m bench`."""

from bench import steady, tick


def main() -> None:
    """Print every table."""
    steady.main()
    print()
    tick.main()


if __name__ == "__main__":
    main()
