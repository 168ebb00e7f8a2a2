"""What goes to a parse worker and back arrives as it was."""

import io
from datetime import UTC, timedelta, timezone
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.fetch.parse_frames import (
    LONG_TEXT,
    BrokenFrame,
    FrameTooLong,
    from_json,
    from_text,
    read_frame,
    unpack,
    write_entries,
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
)


def written(entries):
    stream = io.BytesIO()
    write_entries(stream, entries)
    stream.seek(0)
    return list(iter(partial(read_frame, stream, limit=1 << 30), None))


def read_back(frames):
    frames = iter(frames)
    back = []
    for frame in frames:
        kind, packed = from_json(frame)
        assert kind == "entries"
        back += [unpack(fields, lambda: from_text(next(frames))) for fields in packed]
    return back


@given(st.lists(entries))
def test_entries_come_back_from_their_frames_exactly_as_they_were(entries):
    back = read_back(written(entries))
    assert back == entries
    assert [e.published_at and e.published_at.utcoffset() for e in back] == [
        e.published_at and e.published_at.utcoffset() for e in entries
    ]


@pytest.mark.parametrize("length", [LONG_TEXT, LONG_TEXT + 1])
def test_long_texts_come_back_to_the_entries_they_were_of(length):
    long = "\ud800\N{SNOWMAN}" + "b" * (length - 2)
    short = Entry("s", "t", None, None, None, "short", "")
    entries = [
        short,
        Entry("1", "t", None, None, None, long, None),
        short,
        Entry("2", "t", None, None, None, long + "!", long + "?"),
        Entry("3", "t", None, None, None, "", long),
        short,
    ]
    assert read_back(written(entries)) == entries


def test_a_text_that_is_not_the_one_announced_is_broken():
    head, text = written([Entry("1", "t", None, None, None, "b" * (LONG_TEXT + 1))])
    with pytest.raises(BrokenFrame, match="characters instead of"):
        read_back([head, text[:-1]])


def test_h1_a_long_text_goes_as_it_is():
    long = "\N{GRINNING FACE}" + '"' * LONG_TEXT
    head, text = written([Entry("1", "t", None, None, None, long)])
    assert len(head) < 100
    assert text == long.encode()


def test_h2_frames_of_many_entries_stay_small():
    entry = Entry(None, "t", None, None, None, "x" * 10_000)
    frames = written([entry] * 1000)
    assert len(frames) > 30
    assert max(len(frame) for frame in frames) < 400_000


@given(st.lists(st.binary(max_size=50)))
def test_frames_come_out_as_they_went_in_and_then_end(payloads):
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
