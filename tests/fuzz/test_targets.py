"""A bounded run of every fuzz target, over documents made from the seeds."""

import gc
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.mutations import amplified, mutated
from tests.fuzz.seeds import seeds_of, words_of
from tests.fuzz.targets import TARGETS

# this thread's CPU seconds; twice the limit of the event loop, since each target parses its
# input twice
_SECONDS = 0.5
_MORE_SECONDS = {
    "page": 1.0,  # parsed by a worker
    "settings": 2.0,  # written by their owner
    "wire": 1.0,  # arrives in pieces of a few bytes here
}
_NAMES = sorted(TARGETS)
# input of unbounded length
_LONG = ("feed", "header", "opml", "page", "text", "url", "wire", "x_answer")
_bounded = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def run(target: str, data: bytes) -> None:
    """Run a target, which must end in time for any input (H2)."""
    gc.disable()  # exclude the garbage collection of other tests
    try:
        began = time.thread_time()
        TARGETS[target](data)
        taken = time.thread_time() - began
    finally:
        gc.enable()
    assert taken < _MORE_SECONDS.get(target, _SECONDS)


@pytest.mark.parametrize("target", _NAMES)
def test_h4_every_seed_passes(target: str) -> None:
    for seed in seeds_of(target):
        run(target, seed)


@pytest.mark.parametrize("target", _NAMES)
@_bounded
@given(data=st.data())
def test_h4_m6_mutated_documents_are_parsed_or_refused(target: str, data: st.DataObject) -> None:
    run(target, data.draw(mutated(seeds_of(target), words_of(target))))


@pytest.mark.parametrize("target", _LONG)
@settings(_bounded, max_examples=30)
@given(data=st.data())
def test_h2_m2_repetitive_documents_are_parsed_in_time(target: str, data: st.DataObject) -> None:
    run(target, data.draw(amplified(seeds_of(target), words_of(target))))


@pytest.mark.parametrize("target", _NAMES)
@settings(_bounded, max_examples=50)
@given(st.binary(max_size=300))
def test_h4_any_bytes_are_parsed_or_refused(target: str, data: bytes) -> None:
    run(target, data)
