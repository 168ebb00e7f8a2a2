"""bench.check reports figures above their limits, and nothing else."""

from bench import check

MEASURED = {"a poll: ratio": 2.0, "a poll: statements": 0.5, "a poll: blocks": 0.0}


def test_figures_within_the_margin_are_accepted() -> None:
    limits = check.new_limits(MEASURED)
    assert check.complaints(MEASURED, limits) == []
    assert check.complaints(MEASURED | {"a poll: ratio": 2.5}, limits) == []


def test_figures_above_the_margin_are_reported() -> None:
    limits = check.new_limits(MEASURED)
    for name, value in (("ratio", 2.7), ("statements", 1.6), ("blocks", 3.0)):
        found = check.complaints(MEASURED | {f"a poll: {name}": value}, limits)
        assert len(found) == 1
        assert found[0].startswith(f"a poll: {name}: {value:g}, the limit is")


def test_a_figure_without_a_limit_and_a_limit_without_a_figure_are_reported() -> None:
    expected = ["a poll: ratio: has no figure or no limit"]
    assert check.complaints({"a poll: ratio": 1.0}, {}) == expected
    assert check.complaints({}, {"a poll: ratio": 1.0}) == expected


def test_a_second_measurement_counts_where_it_is_lower() -> None:
    assert check.lower({"a": 2.0, "b": 1.0}, {"a": 1.5, "b": 3.0}) == {"a": 1.5, "b": 1.0}
