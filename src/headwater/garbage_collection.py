"""How often Python looks for garbage cycles; its defaults suit small programs."""

import gc


def collect_garbage_rarely() -> None:
    """Collect garbage cycles less often: Python's defaults take a quarter of the CPU time."""
    _collect_after(20_000)


def collect_garbage_very_rarely() -> None:
    """Collect garbage cycles very rarely: a simulation creates few."""
    _collect_after(200_000)


def _collect_after(new_objects: int) -> None:
    gc.freeze()  # objects that are loaded now are never garbage
    gc.set_threshold(new_objects, 20, 50)
