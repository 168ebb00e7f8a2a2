"""All measurements: `python -m bench`."""

from bench import api_latency, steady, tick


def main() -> None:
    """Print every table."""
    steady.main()
    print()
    tick.main()
    print()
    api_latency.main(())


if __name__ == "__main__":
    main()
