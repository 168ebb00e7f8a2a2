"""Headers: found by any spelling, and never more of them sent than were meant (N6)."""

import pytest

from headwater.fetch.headers import Headers, lines


def test_p8_headers_are_found_by_any_spelling_and_the_first_one_counts():
    headers = Headers([(b"ETag", b'"a"'), (b"etag", b'"b"'), (b"X-Wild", b"\xff")])
    assert headers["etag"] == headers["ETAG"] == headers.get("eTag") == '"a"'
    assert headers.getall("Etag") == ['"a"', '"b"']
    assert headers.get("X-Wild") == "\udcff"
    assert headers.get("Location") is None
    assert list(headers.getall("Location")) == []
    assert dict(headers) == {"etag": '"a"', "x-wild": "\udcff"}
    assert len(headers) == 2


def test_p8_headers_are_sent_one_to_a_line():
    assert (
        lines({"Accept": "*/*", "If-None-Match": '"a"'}) == 'Accept: */*\r\nIf-None-Match: "a"\r\n'
    )
    assert lines({}) == ""


@pytest.mark.parametrize("value", ["a\r\nHost: evil", "a\nb", "a\rb", "a\0b", "a\r\n", "\n"])
@pytest.mark.parametrize("others", [{}, {"Accept": "*/*"}])
def test_n6_a_value_that_would_break_out_of_its_line_is_refused(value, others):
    with pytest.raises(ValueError, match="line break"):
        lines({**others, "If-None-Match": value})
    with pytest.raises(ValueError, match="line break"):
        lines({"If-None-Match": value, **others})
