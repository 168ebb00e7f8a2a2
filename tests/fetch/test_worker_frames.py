"""Messages to a parse worker and back arrive unchanged."""

import io
from datetime import UTC, timedelta, timezone
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.fetch.pool.worker_frames import (
    BrokenFrame,
    FrameTooLong,
    entry_frames,
    from_json,
    read_entry,
    read_frame,
    write_frame,
)
from headwater.model import Entry

texts = st.text(st.characters(exclude_categories=()), max_size=20)  # lone surrogates too
zones = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
entries = st.builds(
    Entry,
    id=st.none() | texts,
    title=texts,
    url=st.none() | texts,
    published_at=st.none() | st.datetimes(timezones=zones | st.just(UTC)),
    author=st.none() | texts,
    body=texts,
    plain_body=st.none() | texts,
    markdown=st.none() | texts,
    page_text=st.none() | texts,
)


def written(entries):
    stream = io.BytesIO()
    for entry in entries:
        for frame in entry_frames(entry):
            write_frame(stream, frame)
    stream.seek(0)
    return list(iter(partial(read_frame, stream, limit=1 << 30), None))


def read_back(frames):
    frames = iter(frames)
    back = []
    for frame in frames:
        kind, *fields = from_json(frame)
        assert kind == "entry"
        back.append(read_entry(fields, partial(next, frames)))
    return back


def test_h1_markdown_that_equals_the_body_is_sent_and_kept_once():
    text = "Plain words."
    frames = written([Entry(None, "T", None, None, None, text, markdown=text)])
    (back,) = read_back(frames)
    assert frames.count(text.encode()) == 1
    assert back.markdown is back.body


@given(st.lists(entries))
def test_entries_survive_a_round_trip_through_frames(entries):
    back = read_back(written(entries))
    assert back == entries
    assert [e.published_at and e.published_at.utcoffset() for e in back] == [
        e.published_at and e.published_at.utcoffset() for e in entries
    ]


def test_h1_a_long_text_is_sent_unencoded():
    long = "\N{GRINNING FACE}" + '"' * (1 << 20)
    head, text, plain_text = written([Entry("1", "t", None, None, None, long, long + "!")])
    assert len(head) < 200
    assert text == long.encode()
    assert plain_text == (long + "!").encode()


@given(st.lists(st.binary(max_size=50)))
def test_frames_survive_a_round_trip_and_end(payloads):
    stream = io.BytesIO()
    for payload in payloads:
        write_frame(stream, payload)
    stream.seek(0)
    assert [read_frame(stream, limit=50) for _ in payloads] == payloads
    assert read_frame(stream, limit=50) is None


@pytest.mark.parametrize("length", range(1, 9))
def test_a_frame_that_is_cut_short_is_broken(length):
    stream = io.BytesIO()
    write_frame(stream, b"hello")
    with pytest.raises(BrokenFrame, match="inside a frame"):
        read_frame(io.BytesIO(stream.getvalue()[:length]), limit=50)


def test_h1_a_frame_over_the_limit_is_not_read():
    stream = io.BytesIO(b"\xff\xff\xff\xff")
    with pytest.raises(FrameTooLong):
        read_frame(stream, limit=1 << 20)
