"""Parsing, normalising and masking of URLs."""

import string
from dataclasses import replace
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import BadUrl
from headwater.rules.url_secrets import masked
from headwater.rules.urls import (
    follow,
    is_address,
    normal_host,
    normalised_url,
    parse_url,
    url_host,
)


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("https://example.org", "https://example.org/"),
        ("HTTPS://Example.ORG:443/Feed", "https://example.org/Feed"),
        ("http://example.org:80/", "http://example.org/"),
        ("http://example.org:443/", "http://example.org:443/"),
        ("https://example.org.:8443/a?b=c#d", "https://example.org:8443/a?b=c"),
        (" https://example.org/a \n", "https://example.org/a"),
        ("https://example.org/ä?q=ö x", "https://example.org/%C3%A4?q=%C3%B6%20x"),
        ("https://example.org/%C3%A4%2f", "https://example.org/%C3%A4%2f"),
        ("https://user:pass@example.org/", "https://example.org/"),
        ("https://[2001:DB8::0001]:8080/", "https://[2001:db8::1]:8080/"),
        ("https://example.org?q=1", "https://example.org/?q=1"),
        ("https://example.org//a//b", "https://example.org//a//b"),
    ],
)
def test_p1_a_url_is_parsed_and_rebuilt_in_one_form(url, plain):
    assert str(parse_url(url)) == plain


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org/feed",
        "//example.org/feed",
        "ftp://example.org/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/plain,hi",
        "feed:https://example.org/",
        "gopher://example.org/",
    ],
)
def test_n2_only_http_and_https_are_visited(url):
    with pytest.raises(BadUrl, match=r"https?://") as refused:
        parse_url(url)
    assert refused.value.field == "url"


@pytest.mark.parametrize(
    "url",
    [
        "https://",
        "https:///path",
        "https://:443/",
        "https://user@/",
        "https://exa mple.org/",
        "https://example.org/a b",
        "https://example.org/\x00",
        "https://example.org/a\x7fb",
        "https://evil.example\\@example.org/",
        "https://example.org:0/",
        "https://example.org:99999/",
        "https://example.org:http/",
        "https://example.org:-1/",
        "https://[::1/",
        "https://[::zz]/",
        "https://1.2.3.4.5/",
        "https://1.2.3.256/",
        "https://256.1/",
        "https://1.2.3.08/",
        "https://4294967296/",
        "https://0x1ffffffff/",
        "https://a..b/",
        "https://.example.org/",
        "https://-a.example/",
        "https://exa$mple.org/",
        "https://" + "a" * 64 + ".example/",
        "https://" + "a." * 130 + "example/",
        "https://example.org/" + "a" * 8200,
        "https://" + "9" * 5000 + "/",
        "https://a\u200db.example/",
        "https://example.org/\ud800",
        "https://example.org/?q=\udfff",
        "https://us\ud800er@example.org/",
        "https://exa\ud800mple.org/",
        "https://example.org\uff0fevil.example/",
    ],
    ids=lambda url: ascii(url)[:40],
)
def test_h4_an_invalid_url_is_refused_in_one_line(url):
    with pytest.raises(BadUrl) as refused:
        parse_url(url)
    assert str(refused.value).isprintable()
    assert url_host(url) is None


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0X7F.0.0.1",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "0177.0x0.0.01",
        "１２７.0.0.1",
        "127。0。0。1",
        "①②⑦.0.0.1",
        "%31%32%37.0.0.1",
        "127.0.0.1%2E",
    ],
)
def test_n4_every_spelling_of_an_address_is_that_address(host):
    assert normal_host(host) == "127.0.0.1"
    assert parse_url(f"http://{host}:8080/x").host == "127.0.0.1"
    assert is_address(normal_host(host))


@pytest.mark.parametrize(
    ("host", "normal"),
    [
        ("::1", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::FFFF:127.0.0.1", "::ffff:7f00:1"),
        ("::ffff:7f00:1", "::ffff:7f00:1"),
        ("::ffff:0.0.0.0", "::ffff:0:0"),
        ("::ffff:255.255.255.255", "::ffff:ffff:ffff"),
        ("fe80::1%eth0", "fe80::1"),
        ("2001:0db8:0000::0001", "2001:db8::1"),
    ],
)
def test_n4_ipv6_has_one_form_and_no_zone(host, normal):
    assert normal_host(host) == normal
    assert is_address(normal)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://127.0.0.1@example.org/", "example.org"),
        ("http://example.org@127.0.0.1/", "127.0.0.1"),
        ("http://a@b@example.org/", "example.org"),
        ("http://example.org:80@127.0.0.1/", "127.0.0.1"),
        ("http://example.org#@127.0.0.1/", "example.org"),
        ("http://example.org?@127.0.0.1/", "example.org"),
        ("http://example.org%2f@127.0.0.1/", "127.0.0.1"),
    ],
)
def test_n4_user_info_and_host_are_never_confused(url, host):
    assert parse_url(url).host == host


@pytest.mark.parametrize(
    ("host", "normal"),
    [
        ("EXAMPLE.org", "example.org"),
        ("example.org.", "example.org"),
        ("münchen.example", "xn--mnchen-3ya.example"),
        ("MÜNCHEN.example.", "xn--mnchen-3ya.example"),
        ("XN--MNCHEN-3YA.example", "xn--mnchen-3ya.example"),
        ("ｅｘａｍｐｌｅ.org", "example.org"),
        ("日本語.example", "xn--wgv71a119e.example"),
        ("ex%41mple.org", "example.org"),
        ("under_score.example", "under_score.example"),
        ("localhost", "localhost"),
        ("1e3.example", "1e3.example"),
        ("127.0.0.1.example", "127.0.0.1.example"),
    ],
)
def test_p1_names_are_lower_case_a_labels_without_a_trailing_dot(host, normal):
    assert normal_host(host) == normal
    assert not is_address(normal)


hosts = st.one_of(
    st.text(string.ascii_letters + string.digits + "-._", min_size=1, max_size=40),
    st.text(min_size=1, max_size=15),
    st.ip_addresses().map(str),
    st.from_regex(r"(0x[0-9a-f]{1,8}|0[0-7]{1,11}|[0-9]{1,10})(\.[0-9]{1,3}){0,3}", fullmatch=True),
)
paths = st.text(max_size=30).map(lambda text: f"/{text}")


@given(hosts)
def test_p1_normalising_a_host_twice_changes_nothing(host):
    try:
        normal = normal_host(host)
    except BadUrl:
        return
    assert normal_host(normal) == normal
    assert normal.isascii()
    assert normal == normal.lower()


@given(st.sampled_from(["http", "https", "HTTP"]), hosts, st.integers(1, 65535), paths)
def test_p1_a_parsed_url_parses_to_itself(scheme, host, port, path):
    netloc = f"[{host}]" if ":" in host else host
    try:
        url = parse_url(f"{scheme}://{netloc}:{port}{path}")
    except BadUrl:
        return
    assert parse_url(str(url)) == replace(url, username=None, password=None)
    assert str(url).isascii()
    assert str(url).isprintable()
    assert " " not in str(url)


@given(st.text(max_size=200))
def test_h4_any_text_is_parsed_or_refused(text):
    for url in (text, f"https://{text}", f"https://example.org/{text}"):
        try:
            parse_url(url)
        except BadUrl:
            assert url_host(url) is None
        else:
            assert url_host(url) is not None


def test_p4_a_url_without_a_host_has_none():
    assert url_host("@name") is None
    assert url_host("https://Example.org./x") == "example.org"


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/b", "https://example.org/b"),
        ("b?x=1", "https://example.org/a/b?x=1"),
        ("//cdn.example.net/b", "https://cdn.example.net/b"),
        ("http://Example.ORG./b", "http://example.org/b"),
        (" /with space ", "https://example.org/with%20space"),
        ("?page=2", "https://example.org/a/feed?page=2"),
    ],
)
def test_n5_a_redirect_is_resolved_against_its_origin(location, target):
    assert str(follow(parse_url("https://example.org/a/feed"), location)) == target


@pytest.mark.parametrize("location", ["ftp://example.org/", "javascript:1", "file:///etc/passwd"])
def test_n2_a_redirect_may_not_leave_http(location):
    with pytest.raises(BadUrl):
        follow(parse_url("https://example.org/"), location)


@pytest.mark.parametrize(
    ("location", "username"),
    [
        ("/b", "user"),
        ("https://example.org/b", "user"),
        ("https://EXAMPLE.org:443/b", "user"),
        ("https://example.org:8443/b", None),
        ("http://example.org/b", None),
        ("https://sub.example.org/b", None),
        ("https://evil.example/b", None),
        ("https://other@example.org/b", "other"),
    ],
)
def test_n6_credentials_are_sent_to_their_origin_only(location, username):
    url = follow(parse_url("https://user:p%40ss@example.org/a"), location)
    assert url.username == username
    assert url.password == ("p@ss" if username == "user" else None)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.org/feed?page=2", "https://example.org/feed?page=2"),
        ("https://user:pass@example.org/feed", "https://example.org/feed"),
        ("https://user@example.org/", "https://example.org/"),
        ("https://us@er:pa@ss@example.org/", "https://example.org/"),
        ("https://user:p%2Fss@example.org/", "https://example.org/"),
        ("//user:pass@example.org/", "//example.org/"),
        ("https://example.org/?api_key=abc&page=2", "https://example.org/?api_key=***&page=2"),
        ("https://example.org/?TOKEN=abc", "https://example.org/?TOKEN=***"),
        ("https://example.org/?x=1&password=a=b", "https://example.org/?x=1&password=***"),
        ("https://example.org/?sig=a&auth=b&secret=c", None),
        ("https://example.org/?access_token=a#top", "https://example.org/?access_token=***"),
        ("https://example.org/?token=", "https://example.org/?token="),
        ("https://example.org/?token", "https://example.org/?token"),
        ("https://example.org/@user/feed", "https://example.org/@user/feed"),
        ("https://example.org/?q=a@b.example", "https://example.org/?q=a@b.example"),
        (
            "https://bridge.example/?url=https://user:pass@example.org/feed",
            "https://bridge.example/?url=https://example.org/feed",
        ),
        (
            "https://bridge.example/?url=https%3A%2F%2Fuser%3Apass%40example.org%2F",
            "https://bridge.example/?url=https%3A%2F%2Fexample.org%2F",
        ),
        (
            "https://bridge.example/?url=https%3A%2F%2Fx.example%2F%3Fapi_key%3Dabc%26n%3D2&m=1",
            "https://bridge.example/?url=https%3A%2F%2Fx.example%2F%3Fapi_key%3D***%26n%3D2&m=1",
        ),
        (
            "https://bridge.example/?url=https://x.example/?api_key=abc&token=abc",
            "https://bridge.example/?url=https://x.example/?api_key=***&token=***",
        ),
        (
            "https://bridge.example/?url=https%3A%2F%2Fx.example%2F%3Fq%3Da+b",
            "https://bridge.example/?url=https%3A%2F%2Fx.example%2F%3Fq%3Da+b",
        ),
        (
            "https://a.example/?u=https%3A%2F%2Fb.example%3Fu%3Dx%253Fsid%253Da%2526n%253D2%26n%3D3",
            "https://a.example/?u=https%3A%2F%2Fb.example%3Fu%3Dx%253Fsid%253D***%2526n%253D2%26n%3D3",
        ),
        ("https://a.example/?u=x?a=b?token=c?d&n=2", "https://a.example/?u=x?a=b?token=***&n=2"),
        (
            "https://a.example/?form=token%3Dabc%26n%3d2",
            "https://a.example/?form=token%3D***%26n%3d2",
        ),
        (
            "https://example.org/?%3a%2f%2f=%40token=abc",
            "https://example.org/?%3a%2f%2ftoken=***",
        ),
        ("?a://x" + "&token=/&b=@token=/" * 9 + "&c=@token=1", "?***"),
        ("@name", "@name"),
        ("no url at all", "no url at all"),
        ("", ""),
    ],
)
def test_u6_a_url_is_shown_without_user_info_and_secret_values(url, shown):
    expected = "https://example.org/?sig=***&auth=***&secret=***" if shown is None else shown
    assert masked(url) == expected
    assert masked(masked(url)) == masked(url)


def test_u6_a_url_in_a_query_with_half_a_surrogate_pair_is_masked():
    assert masked("?url=%3Fa%3D\ud800%26token%3Dabc") == "?url=%3Fa%3D\ud800%26token%3D***"


unreserved = string.ascii_uppercase + string.digits
passwords = st.text(unreserved + "@:;&=+$,!*'()%", min_size=1, max_size=20).map("ZQ{}QZ".format)


@given(passwords, st.sampled_from(["", "/feed", "/feed?page=2", "?q=@x", "#@top"]))
def test_u6_the_password_is_never_shown(password, rest):
    url = f"https://user:{password}@example.org{rest}"
    assert password not in masked(url)
    assert "ZQ" not in masked(url)


@given(st.sampled_from(["key", "apikey", "access_token", "Password", "sig"]), passwords)
def test_u6_no_secret_looking_value_is_ever_shown(name, secret):
    value = secret.replace("&", "%26")
    assert value not in masked(f"https://example.org/feed?page=2&{name}={value}&x=1")


@given(st.sampled_from(["key", "sid", "access_token"]), passwords, st.integers(1, 2))
def test_u6_no_secret_of_an_encoded_url_is_ever_shown(name, secret, times):
    url = f"https://example.org/?n=1&{name}={quote(secret, safe='')}&m=2"
    for _ in range(times):
        url = f"https://bridge.example/?url={quote(url, safe='')}&page=2"
    assert "ZQ" not in masked(url)
    assert masked(url).endswith("&page=2")


parts = st.sampled_from("? & = @ :// %3f %26 %3D %253F %2526 %253d %40 %3A%2F%2F token a %".split())


@given(st.lists(parts, max_size=40).map("".join))
def test_u6_masking_a_masked_url_changes_nothing(url):
    assert masked(masked(url)) == masked(url)


@given(st.text(max_size=300))
def test_u6_any_text_can_be_masked_and_masking_twice_changes_nothing(text):
    assert masked(masked(text)) == masked(text)


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("HTTP://Example.ORG/A?b=C", "http://example.org/A?b=C"),
        ("http://example.org:80/a#top", "http://example.org/a"),
        ("https://example.org:443", "https://example.org/"),
        ("https://example.org:8443/a", "https://example.org:8443/a"),
        ("http://User:Pass@Example.org/", "http://User:Pass@example.org/"),
        ("http://[::1]:80/", "http://[::1]/"),
        ("http://example.org:port/", "http://example.org:port/"),
        ("http://[broken/", "http://[broken/"),
        ("no url at all", "no url at all"),
        ("", ""),
    ],
)
def test_of_two_spellings_of_a_url_one_is_plain(url, plain):
    assert normalised_url(url) == plain
    assert normalised_url(plain) == plain
