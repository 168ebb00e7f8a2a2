"""Headers: found in any letter case, and without header injection (N6)."""

import pytest

from headwater.fetch.net.http_client import format_headers
from headwater.fetch.net.http_response_parser import ResponseParser
from tests.factories import client_limits


def test_p8_headers_are_found_in_any_letter_case():
    response = ResponseParser(client_limits())
    response.feed(b'HTTP/1.1 200 OK\r\nETag: "a"\r\netag: "b"\r\nX-Wild: \xff\r\n\r\n')
    assert response.first_headers() == {"etag": '"a"', "x-wild": "\udcff"}
    assert response.header_values("etag") == ['"a"', '"b"']


def test_p8_headers_are_sent_one_to_a_line():
    sent = format_headers({"Accept": "*/*", "If-None-Match": '"a"'})
    assert sent == 'Accept: */*\r\nIf-None-Match: "a"\r\n'
    assert format_headers({}) == ""


@pytest.mark.parametrize("value", ["a\r\nHost: evil", "a\nb", "a\rb", "a\0b", "a\r\n", "\n"])
@pytest.mark.parametrize("others", [{}, {"Accept": "*/*"}])
def test_n6_a_value_with_a_line_break_is_refused(value, others):
    with pytest.raises(ValueError, match="line break"):
        format_headers({**others, "If-None-Match": value})
    with pytest.raises(ValueError, match="line break"):
        format_headers({"If-None-Match": value, **others})
