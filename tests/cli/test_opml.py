"""Import and export of OPML."""

OPML = """<?xml version="1.0"?><opml version="2.0"><body>
<outline text="One" type="rss" xmlUrl="https://one.example/feed?token=secret"/>
<outline text="Two" type="rss" xmlUrl="https://two.example/feed"/>
<outline text="Bad" type="rss" xmlUrl="ftp://three.example/feed"/>
</body></opml>"""


def test_import_adds_new_sources_and_reports_the_others(cli):
    file = cli.folder / "list.opml"
    file.write_text(OPML)
    said = cli("import", file)
    assert said.code == 0
    assert [row[0] for row in said.rows] == ["added", "added", "rejected"]
    items = cli.json("import", file, "--json")["items"]
    assert [item["outcome"] for item in items] == ["exists", "exists", "rejected"]
    assert items[0]["sourceId"]
    assert "ftp" in items[2]["error"]


def test_u6_export_has_complete_urls_that_survive_a_round_trip(cli):
    assert cli("import", "-", given=OPML).code == 0
    cli("add", "https://page.example/", "--type", "website")
    exported = cli("export").out
    assert "https://one.example/feed?token=secret" in exported
    assert cli("export", "out.opml").out == ""
    cli("podcasts", "add", "other")
    assert cli("import", "out.opml", "--podcast", "other").code == 0
    before = {(s["url"], s["type"]) for s in cli.json("list", "--json")}
    after = {(s["url"], s["type"]) for s in cli.json("list", "--podcast", "other", "--json")}
    assert before == after
    assert len(before) == 3


def test_import_with_poll_polls_the_added_sources(cli, web):
    url = web.url("feed.demo")
    opml = f'<opml version="2.0"><body><outline text="F" xmlUrl="{url}"/></body></opml>'
    said = cli("import", "-", "--poll", given=opml)
    assert said.code == 0
    assert "unchanged" in said.out


def test_a_file_that_is_no_opml_is_refused_in_one_line(cli):
    cli.fails("import", "-", code=2, given="this is no OPML")


def test_a_file_without_feeds_or_cut_off_is_refused_in_one_line(cli):
    empty = "<opml><body><outline text='folder'/></body></opml>"
    assert "has no feeds" in cli.fails("import", "-", code=2, given=empty)
    cut = "<opml><body><outline text='F' xmlUrl='https://example.org/feed'/>"
    assert "cut off" in cli.fails("import", "-", code=2, given=cut)
    assert cli.json("list", "--json") == []


def test_an_import_of_only_rejected_lines_fails(cli):
    opml = '<opml version="2.0"><body><outline text="F" xmlUrl="ftp://x/y"/></body></opml>'
    assert cli("import", "-", given=opml).code == 1


def test_export_replaces_a_file_only_on_request(cli):
    cli("migrate")
    (cli.folder / "out.opml").write_text("mine")
    assert "--force replaces it" in cli.fails("export", "out.opml", code=2)
    assert (cli.folder / "out.opml").read_text() == "mine"
    assert cli("export", "out.opml", "--force").code == 0
    assert "<opml" in (cli.folder / "out.opml").read_text()


def test_export_into_a_missing_folder_is_a_one_line_error(cli):
    cli("migrate")
    assert "cannot be written" in cli.fails("export", "nowhere/out.opml", code=2)
