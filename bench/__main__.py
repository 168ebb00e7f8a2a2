"""All measurements: `python -m bench`."""

from bench import api_latency, pages, steady, tick


def main() -> None:
    """Print every table."""
    steady.main()
    print()
    tick.main()
    print()
    api_latency.main(())
    print()
    pages.main(())


if __name__ == "__main__":
    main()
