"""OPML is read even if malformed, and written lists survive a round trip."""

import json
import tracemalloc
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from headwater.errors import UsageError
from headwater.formats.opml import MAX_FOLDER_DEPTH, Outline, read_opml, write_opml

CREATED = datetime(2026, 2, 16, 8, 0, tzinfo=UTC)
FEED = "https://example.org/feed"


def opml(body: str, *, version: str = ' version="2.0"') -> bytes:
    return f"<opml{version}><head><title>t</title></head><body>{body}</body></opml>".encode()


def written(*outlines: Outline) -> bytes:
    return write_opml(outlines, title="Sources", created=CREATED)


# Reading valid lists


@pytest.mark.parametrize("version", ["", ' version="1.0"', ' version="1.1"', ' version="2.0"'])
def test_every_version_of_opml_is_read(version):
    body = f'<outline text="A" type="rss" xmlUrl="{FEED}" htmlUrl="https://example.org/"/>'
    assert read_opml(opml(body, version=version)) == [
        Outline(FEED, "A", "https://example.org/", (), "rss")
    ]


def test_folders_are_paths_and_a_feed_is_no_folder():
    found = read_opml(
        opml("""
        <outline text="News">
          <outline text="World"><outline xmlUrl="http://a.example/1"/></outline>
          <outline xmlUrl="http://a.example/2"><outline xmlUrl="http://a.example/3"/></outline>
          <outline><outline xmlUrl="http://a.example/4"/></outline>
        </outline>
        <outline xmlUrl="http://a.example/5"></outline>
        <outline xmlUrl="http://a.example/6"/>""")
    )
    assert [(o.url[-1], o.folder) for o in found] == [
        ("1", ("News", "World")),
        ("2", ("News",)),
        ("3", ("News",)),
        ("4", ("News",)),
        ("5", ()),
        ("6", ()),
    ]


@pytest.mark.parametrize("name", ["xmlUrl", "xmlurl", "XMLURL", "xmlURL"])
def test_names_of_attributes_and_tags_match_in_any_case(name):
    assert read_opml(f'<OPML><Body><OUTLINE Text="A" {name}="{FEED}"/></OPML>'.encode()) == [
        Outline(FEED, "A")
    ]


@pytest.mark.parametrize(
    ("attributes", "title"),
    [
        ('title="T" text="X"', "T"),
        ('title=" " text="X"', "X"),
        ('text="two\n  lines"', "two lines"),
        ('text=""', None),
        ("", None),
        (f'text="{FEED}"', None),
        ('text="&#65;&#x42;&eacute;&amp;lt;&unknown;"', "ABé&lt;&unknown;"),
        ('text="&#0;&#xD800;&#9999999;"', "\ufffd\ufffd\ufffd"),
    ],
)
def test_a_title_is_one_plain_line(attributes, title):
    assert read_opml(opml(f'<outline {attributes} xmlUrl="{FEED}"/>')) == [Outline(FEED, title)]


@pytest.mark.parametrize(
    ("attributes", "type_"),
    [
        ('type="rss"', "rss"),
        ('type=" RSS "', "rss"),
        ('type="atom"', None),
        ('type="twitter"', None),
        ('type="rss" headwater:sourceType="website"', "website"),
        ('headwater:sourceType="nonsense"', None),
        ("", None),
    ],
)
def test_the_type_is_a_source_type_or_none(attributes, type_):
    assert read_opml(opml(f'<outline {attributes} xmlUrl="{FEED}"/>'))[0].type == type_


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: text.encode(),
        lambda text: text.encode("utf-8-sig"),
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-16-be"),
        lambda text: text.encode("utf-16-le"),
        lambda text: text.encode("utf-32"),
        lambda text: b'<?xml version="1.0" encoding="ISO-8859-1"?>' + text.encode("latin-1"),
        lambda text: b"<?xml version='1.0' encoding='UTF-16'?>" + text.encode(),
        lambda text: b"<?xml version='1.0' encoding='utf-8'?>" + text.encode("cp1252"),
        lambda text: b"<?xml version='1.0' encoding='punycode'?>" + text.encode(),
        lambda text: b"<?xml version='1.0' encoding='no-such-set'?>" + text.encode(),
        lambda text: b"<?xml version='1.0' encoding='shift_jis'?>" + text.encode() + b"\x81",
    ],
)
def test_any_encoding_is_read_even_with_a_false_declaration(encode):
    data = encode(opml(f'<outline text="Grüße" xmlUrl="{FEED}"/>').decode())
    assert read_opml(data) == [Outline(FEED, "Grüße")]


def test_other_scripts_are_read_in_their_encodings():
    text = f"<?xml version='1.0' encoding='Shift_JIS'?><outline text='日本' xmlUrl='{FEED}'/>"
    assert read_opml(text.encode("shift_jis")) == [Outline(FEED, "日本")]


# Reading invalid lists


@pytest.mark.parametrize(
    ("body", "urls"),
    [
        ('<outline text="A & B" xmlUrl="http://a.example/?x=1&copy=2&y"/>', ["?x=1&copy=2&y"]),
        ('<outline text="a\x01\x0b" xmlUrl="http://a.example/ok"/>', ["ok"]),
        ("<outline text=A xmlUrl=http://a.example/bare />", ["bare"]),
        ("<outline text='\"' xmlUrl = 'http://a.example/apostrophes'/>", ["apostrophes"]),
        ('<outline xmlUrl="http://a.example/1" xmlUrl="http://a.example/2"/>', ["1"]),
        ('<outline text="a <b class="x">bold</b> word" xmlUrl="http://a.example/1"/>', ["1"]),
        ('<outline text="1 < 2" xmlUrl="http://a.example/1"/>', ["1"]),
        ('<outline text="cut <outline xmlUrl="http://a.example/1"/>', ["1"]),
        ('<outline text="cut" tit <outline xmlUrl="http://a.example/1"/>', ["1"]),
        ('<outline te" text="A" xmlUrl="http://a.example/1"/>', ["1"]),
        ('<outline xmlUrl="http://a.example/1"<outline xmlUrl="http://a.example/2"/>', ["1", "2"]),
        ('<outline xmlUrl="http://a.example/1"/></outline></outline></b>', ["1"]),
        (
            '<!-- <outline xmlUrl="http://a.example/no"/> --><outline xmlUrl="http://a.example/1">',
            "1",
        ),
        ("<![CDATA[<outline xmlUrl='http://a.example/no'/>]]>", []),
        ('<outline xmlUrl=""/><outline xmlUrl="  "/><outline xmlUrl/><outline xmlUrl=/>', []),
    ],
)
def test_broken_markup_loses_only_the_broken_part(body, urls):
    found = read_opml(opml(body))
    assert [outline.url.removeprefix("http://a.example/") for outline in found] == list(urls)


def test_misplaced_outlines_are_read_and_open_folders_end_with_the_body():
    data = b"""<opml><head><outline xmlUrl="http://a.example/1"/></head>
      <body><outline text="never closed"></body><outline xmlUrl="http://a.example/2"/></opml>"""
    assert read_opml(data) == [Outline("http://a.example/1"), Outline("http://a.example/2")]


def test_a_truncated_tag_is_no_folder():
    data = b'<opml><outline text="cut" tit\n<outline xmlUrl="http://a.example/1"/></opml>'
    assert read_opml(data)[0].folder == ()


@pytest.mark.parametrize(
    "data",
    [b"", b"hello", b"<html><body>no</body></html>", b"\xff\xfe", b"\0" * 50, b'{"a": 1}', b"<"],
)
def test_a_document_without_outlines_is_refused_in_one_line(data):
    with pytest.raises(UsageError, match="not an OPML file") as caught:
        read_opml(data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [opml(""), b'<opml version="1.1"/>', opml('<outline text="x"/>')])
def test_opml_without_feeds_is_an_empty_list(data):
    assert read_opml(data) == []


@pytest.mark.parametrize("cut", [8, 30, 60])
def test_a_file_that_is_cut_off_is_refused(cut):
    whole = opml('<outline text="A" xmlUrl="http://a.example/1"/>' * 3)
    assert len(read_opml(whole)) == 3
    with pytest.raises(UsageError, match=r"cut off: .* \(feeds found: [23]\)"):
        read_opml(whole[:-cut])
    assert len(read_opml(whole[:-cut], max_outlines=1)) == 2  # more than that is not read


@given(st.binary(max_size=300))
def test_h4_no_bytes_raise_anything_but_usage_error(data):
    try:
        read_opml(data)
    except UsageError:
        return


PIECES = """<opml> <outline xmlUrl text = " ' http://a > /> </outline> </ < <b & &amp; &#0; <!-- -->
<![CDATA[ ]]> <?xml ?> \0 \x01 é""".split()


@given(st.lists(st.sampled_from([*PIECES, " "]), max_size=40))
def test_h4_no_random_markup_raises_anything_but_usage_error(pieces):
    try:
        read_opml("".join(pieces).encode())
    except UsageError:
        return


@pytest.mark.parametrize(
    "data",
    [
        b'<outline text="a">' * 50_000 + b'<outline xmlUrl="http://x"/>' * 10,
        b"<outline " + b" ".join(b"a%d='x'" % n for n in range(50_000)) + b">",
        b'<outline a="' * 20_000,
        b"<outline a='\"" * 20_000,
        b'<opml><outline a="' + b"<a" * 200_000,
        b"<opml><outline a" + b" " * 1_000_000,
        b"<opml>" + b"<" * 2_000_000,
        b"<opml>" + b"<!--" * 500_000,
        b'<opml><outline xmlUrl="' + b"&" * 2_000_000 + b'"/>',
        b"<opml><outline " + b"a" * 8_000_000 + b"='x'/>",
    ],
    ids=[
        "levels",
        "attributes",
        "quotes",
        "mixed",
        "tags",
        "spaces",
        "lt",
        "comments",
        "&",
        "token",
    ],
)
def test_m2_hostile_files_are_read_in_bounded_memory(data):
    tracemalloc.start()
    try:
        with suppress(UsageError):  # they are cut off
            read_opml(data)
        assert tracemalloc.get_traced_memory()[1] < 12 * len(data)
    finally:
        tracemalloc.stop()


def test_m2_the_path_of_a_feed_stays_short():
    deep = b'<outline text="a">' * 1_000 + b'<outline xmlUrl="http://x"/>'
    assert read_opml(deep)[0].folder == ("a",) * MAX_FOLDER_DEPTH


def test_m1_entities_of_a_doctype_are_not_expanded():
    data = b"""<!DOCTYPE opml [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">
      <!ENTITY x SYSTEM "file:///etc/passwd">]>
      <opml><outline text="&b;&x;" xmlUrl="http://a.example/1"/></opml>"""
    assert read_opml(data) == [Outline("http://a.example/1", "&b;&x;")]


# Writing


def test_an_export_is_opml_2_with_each_folder_once_and_our_types_in_a_namespace():
    data = written(
        Outline(FEED, "A & B", "https://example.org/", ("News",), "rss"),
        Outline("https://page.example/", "Page", None, (), "website"),
        Outline("@name", None, None, ("News", "X"), "twitter"),
    )
    assert data.decode() == (
        """<?xml version="1.0" encoding="UTF-8"?>
<opml version="2.0" xmlns:headwater="urn:headwater:opml">
  <head>
    <title>Sources</title>
    <dateCreated>Mon, 16 Feb 2026 08:00:00 GMT</dateCreated>
  </head>
  <body>
    <outline text="News" title="News">
      <outline text="A &amp; B" title="A &amp; B" type="rss" xmlUrl="https://example.org/feed" """
        """htmlUrl="https://example.org/"/>
      <outline text="X" title="X">
        <outline text="@name" headwater:sourceType="twitter" xmlUrl="@name"/>
      </outline>
    </outline>
    <outline text="Page" title="Page" headwater:sourceType="website" """
        """xmlUrl="https://page.example/"/>
  </body>
</opml>
"""
    )


def test_v3_settings_are_attributes_of_our_namespace_and_others_are_ignored():
    data = written(Outline(FEED, "A", None, (), "rss", {"poll_interval_minutes": "60"}))
    (outline,) = etree.fromstring(data).iter("outline")
    assert outline.get("{urn:headwater:opml}pollIntervalMinutes") == "60"
    newer = data.replace(b"headwater:poll", b'headwater:fromTheFuture="1" headwater:poll')
    assert read_opml(newer) == read_opml(data)


def test_an_empty_export_is_an_empty_list():
    assert read_opml(written()) == []


def test_the_moment_is_written_in_utc():
    moment = CREATED.astimezone(timezone(timedelta(hours=5)))
    assert write_opml([], title="t", created=moment) == write_opml([], title="t", created=CREATED)


def test_u6_urls_survive_whole_while_the_text_shows_no_credentials():
    url = "https://user:p%22w@example.org/feed?a=1&b=\"<>'&amp;key=secret"
    data = written(Outline(url, None, None, (), "rss"))
    assert read_opml(data) == [Outline(url, None, None, (), "rss")]
    text = next(etree.fromstring(data).iter("outline")).get("text") or ""
    assert text.startswith("https://example.org/feed?a=1")
    assert "user" not in text
    assert "secret" not in text


def test_u7_nothing_breaks_out_of_its_attribute_or_element():
    evil = '"/><outline xmlUrl="http://evil.example/"/></title>\x00\x1b\ud800\ufffe'
    data = write_opml([Outline(FEED, evil, evil, (evil,))], title=evil, created=CREATED)
    root = etree.fromstring(data)
    assert [o.get("xmlUrl") for o in root.iter("outline")] == [None, FEED]
    assert root.findtext("head/title") == '"/><outline xmlUrl="http://evil.example/"/></title>'


characters = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn", "Zs", "Zl", "Zp"])
words = st.text(characters, min_size=1, max_size=12)
lines = st.lists(words, min_size=1, max_size=3).map(" ".join)
urls = st.text(st.sampled_from("abc/?&;=#\"'<>@:%é水😀") | characters, min_size=1, max_size=40)
outlines = st.builds(
    Outline,
    url=urls,
    title=st.none() | lines,
    html_url=st.none() | urls,
    folder=st.lists(lines, max_size=4).map(tuple),
    type=st.sampled_from([None, "rss", "website", "twitter"]),
    settings=st.dictionaries(
        st.sampled_from(["label", "keep", "watch", "poll_delay_seconds"]), lines
    ),
)


@given(st.lists(outlines, max_size=8))
def test_written_lists_survive_a_round_trip(given_outlines):
    data = written(*given_outlines)
    found = read_opml(data)
    assert Counter(found) == Counter(given_outlines)
    assert written(*found) == data


@given(st.lists(outlines, max_size=5), st.text(max_size=20))
def test_written_lists_are_well_formed_xml(given_outlines, title):
    root = etree.fromstring(write_opml(given_outlines, title=title, created=CREATED))
    found = [o.get("xmlUrl") for o in root.iter("outline") if o.get("xmlUrl") is not None]
    assert Counter(found) == Counter(o.url for o in given_outlines)


# Real lists


@pytest.mark.corpus
def test_real_lists_are_read_as_recorded(corpus: Path):
    folder = corpus / "opml"
    for case in json.loads((folder / "manifest.json").read_text())["files"]:
        data = (folder / case["file"]).read_bytes()
        try:
            found = read_opml(data)
        except UsageError:
            assert b"<opml" not in data
            assert not case["feed_urls_lenient"]
            continue
        if case["feeds"] is not None:
            facts = [(f["title"], f["xml_url"], f["html_url"], f["folder"]) for f in case["feeds"]]
            assert [(o.title, o.url, o.html_url, list(o.folder)) for o in found] == facts
        else:
            # a tag with an odd number of quotes gives one more than the recorded count
            urls = [o.url for o in found]
            assert [url for url in urls if url in case["feed_urls_lenient"]] == (
                case["feed_urls_lenient"]
            )
            assert len(urls) <= len(case["feed_urls_lenient"]) + 1


@pytest.mark.corpus
def test_real_lists_survive_a_round_trip(corpus: Path):
    for path in sorted((corpus / "opml").glob("*.*ml")):
        try:
            found = read_opml(path.read_bytes())
        except UsageError:
            continue
        assert Counter(read_opml(written(*found))) == Counter(found)


def test_reading_stops_after_the_wanted_number_of_sources():
    data = opml("".join(f'<outline xmlUrl="http://a.example/{n}"/>' for n in range(10)))
    assert len(read_opml(data, max_outlines=10)) == 10
    assert len(read_opml(data, max_outlines=9)) == 10  # one more, which shows that there are more
    assert [each.url[-1] for each in read_opml(data, max_outlines=3)] == ["0", "1", "2", "3"]
