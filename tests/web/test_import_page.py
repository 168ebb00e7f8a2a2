"""OPML import on its page: a result per line, reported limits, and the export."""

import pytest

from headwater.formats.opml import read_opml
from headwater.web.forms import MAX_PARTS
from tests.api.conftest import Answer, settings_in
from tests.api.stored_data import podcast_of, source_of
from tests.api.test_opml import a_list
from tests.web.conftest import Visited, visiting
from tests.web.test_add_source_page import EVIL, sources_of, words

IMPORT = "/podcasts/default/import"
EDGE = "----edge"
Parts = dict[str, bytes]


def body_of(parts: Parts, *, end: bytes = b"--\r\n") -> bytes:
    """A form with a file, as browsers send it."""
    named = {
        "file": b'name="file"; filename="list.opml"\r\nContent-Type: text/x-opml',
        "text": b'name="text"',
        "poll": b'name="poll"',
    }
    pieces = [
        b"--%s\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n"
        % (EDGE.encode(), named.get(name, b'name="%s"' % name.encode()), content)
        for name, content in parts.items()
    ]
    return b"".join(pieces) + b"--" + EDGE.encode() + end


async def upload(pages: Visited, **parts: bytes) -> Answer:
    return await sent(pages, body_of(parts))


async def sent(
    pages: Visited,
    data: bytes,
    path: str = IMPORT,
    *,
    kind: str = f"multipart/form-data; boundary={EDGE}",
    token: str | None = None,
) -> Answer:
    return await pages.call("POST", path, data=data, headers={"Content-Type": kind}, token=token)


async def test_an_import_reports_the_result_of_every_line(pages_by_each: Visited):
    pages = pages_by_each
    there = await source_of(pages, url="https://there.example/feed")
    file = a_list(
        "https://one.example/feed?token=secret",
        "https://two.example/feed",
        "https://there.example/feed",
        "ftp://three.example/feed",
        "no url at all",
    )
    answer = await upload(pages, file=file)
    assert answer.status == 200
    text = words(answer)
    assert "2 added 1 watched already 2 rejected" in text
    assert "ftp://three.example/feed ftp: URLs are not supported" in text
    assert "no url at all the URL contains a space" in text
    html = answer.body.decode()
    added = [s for s in await sources_of(pages) if s.id != there.id]
    assert [s.url for s in added] == [
        "https://one.example/feed?token=secret",
        "https://two.example/feed",
    ]
    for source in (*added, there):
        assert f'href="/podcasts/default/sources/{source.id}"' in html
    assert "secret" not in html
    assert [s.requested_at for s in added] == [None, None]
    assert 'href="/podcasts/default/sources"' in html


async def test_added_sources_are_polled_at_once_on_request(pages_by_each: Visited):
    pages = pages_by_each
    there = await source_of(pages, url="https://there.example/feed")
    file = a_list("https://one.example/feed", "https://there.example/feed")
    answer = await upload(pages, file=file, poll=b"yes")
    assert "Checks are requested" in words(answer)
    asked = {s.url: s.requested_at is not None for s in await sources_of(pages)}
    assert asked == {"https://one.example/feed": True, there.url: False}


async def test_j3_existing_posts_are_included_unless_the_user_unchecks_it(pages: Visited):
    form = await pages.text(IMPORT)
    assert 'name="history" value="yes" aria-describedby="h-history" checked' in form
    await upload(pages, file=a_list("https://one.example/feed"), history=b"yes")
    await upload(pages, file=a_list("https://two.example/feed"))
    assert [source.include_history for source in await sources_of(pages)] == [True, False]


async def test_a_list_can_be_pasted(pages: Visited):
    file = a_list("https://one.example/feed").decode()
    latin = '<?xml version="1.0" encoding="ISO-8859-1"?>' + file.replace("Feed 0", "Fähre")
    answer = await upload(pages, file=b"", text=f"\r\n{latin}\r\n".encode())
    assert answer.status == 200
    (source,) = await sources_of(pages)
    assert source.label == "Fähre"


@pytest.mark.parametrize(
    ("parts", "reported"),
    [
        ({}, "Choose a file, or paste a list."),
        ({"file": b"", "text": b" \r\n"}, "Choose a file, or paste a list."),
        ({"file": b"this is no list"}, "This is not an OPML file"),
        ({"file": b"\x00\xff\r\n--\r\n"}, "This is not an OPML file"),
        ({"text": b"<html>" + EVIL.encode()}, "This is not an OPML file"),
        ({"file": b"<opml><outline text='a folder'/></opml>"}, "The file has no feeds"),
        ({"file": b"<opml><outline xmlUrl='http://a.example/'/>"}, "The file is cut off"),
    ],
)
async def test_a_file_that_is_no_opml_is_refused_with_a_message(
    pages: Visited, parts: Parts, reported: str
):
    answer = await upload(pages, **parts)
    assert answer.status == 422
    assert reported in words(answer)
    assert "<script>alert" not in answer.body.decode()


async def test_u8_limits_are_reported_and_nothing_beyond_them_is_added(tmp_path):
    options = {"app.limits.max-sources-per-user": 2, "app.limits.max-request-bytes": 1_000_000}
    async for pages in visiting(settings_in(tmp_path, **options)):
        assert "Up to 0.954 MB and 2 sources" in words(await pages.text(IMPORT))
        answer = await upload(pages, file=a_list(*(f"https://{x}.example/" for x in "abc")))
        assert answer.status == 413
        assert "app.limits.max-sources-per-user" in words(answer)
        assert (await upload(pages, file=b"x" * 1_000_000)).status == 413
        assert await sources_of(pages) == []


async def test_a_long_list_is_counted_completely_and_shown_in_part(pages: Visited):
    good = [f"https://host{n}.example/feed" for n in range(1200)]
    bad = ["gopher://" + "x" * 5000, *(f"gopher://host{n}.example/" for n in range(700))]
    answer = await upload(pages, file=a_list(*good, *bad))
    text = words(answer)
    assert "1,200 added 701 rejected" in text
    assert "and 700 more" in text
    assert "and 201 more" in text
    assert len(answer.body) < 400_000


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", f"multipart/form-data; boundary={EDGE}"),
        (b"text=x", "application/x-www-form-urlencoded"),
        (b"x", "multipart/form-data"),
        (b"x", "multipart/form-data; boundary="),
        (body_of({"file": b"<opml/>"}, end=b""), f"multipart/form-data; boundary={EDGE}"),
        (b"--e\r\nno head at all\r\n--e--", "multipart/form-data; boundary=e"),
        (b"--e\r\nX: y\r\n\r\nz\r\n--e--", "multipart/form-data; boundary=e"),
        (
            body_of({f"part{n}": b"" for n in range(MAX_PARTS + 1)}),
            f"multipart/form-data; boundary={EDGE}",
        ),
        (b"\r\n--e" * 100_000, "multipart/form-data; boundary=e"),
    ],
)
async def test_a_broken_form_is_refused(pages: Visited, data: bytes, kind: str):
    answer = await sent(pages, data, kind=kind)
    assert answer.status == 422
    assert await sources_of(pages) == []


async def test_a_boundary_may_be_quoted_and_a_file_may_contain_one(pages: Visited):
    file = a_list("https://one.example/") + b"\r\n--not the edge\r\n\r\n--"
    answer = await sent(
        pages, body_of({"file": file}), kind=f'multipart/form-data; boundary="{EDGE}"'
    )
    assert answer.status == 200
    assert len(await sources_of(pages)) == 1


async def test_u4_hostile_lines_are_escaped(pages: Visited):
    evil = EVIL.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    answer = await upload(
        pages, file=a_list(f"https://a.example/{evil}", evil, f"javascript:{evil}")
    )
    html = answer.body.decode()
    assert "<script>alert" not in html
    assert "<img src=x" not in html
    assert 'href="javascript:' not in html


async def test_the_export_link_returns_all_sources(pages: Visited):
    await source_of(pages, url="https://one.example/feed?key=secret")
    path = "/api/users/default/podcasts/default/opml"
    assert f'href="{path}"' in await pages.text(IMPORT)
    (outline,) = read_opml((await pages.get(path)).body)
    assert outline.url == "https://one.example/feed?key=secret"


async def test_u2_users_cannot_import_into_podcasts_of_others(pages: Visited):
    ann, _ = await pages.person("ann"), await pages.person("bob")
    theirs = (await podcast_of(pages, "bob")).id
    own = (await podcast_of(pages, "ann")).id
    file = body_of({"file": a_list("https://a.example/")})
    for podcast in (theirs, "nobody"):
        path = f"/podcasts/{podcast}/import"
        assert (await pages.get(path, token=ann)).status == 404
        assert (await sent(pages, file, path, token=ann)).status == 404
    assert await sources_of(pages, theirs) == []
    answer = await sent(pages, file, f"/podcasts/{own}/import", token=ann)
    assert answer.status == 200
    assert len(await sources_of(pages, own)) == 1


async def test_u2_anonymous_users_are_redirected_to_the_login(pages: Visited):
    await pages.admin()
    answer = await pages.get(IMPORT)
    assert answer.status == 303
    assert answer.headers["Location"].startswith("/login?")
    answer = await upload(pages, file=a_list("https://a.example/"))
    assert (answer.status, answer.headers["Location"][:6]) == (303, "/login")
    assert await sources_of(pages) == []
