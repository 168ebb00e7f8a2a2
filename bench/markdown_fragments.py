"""Renders fragments of HTML as Markdown and back, on one page for visual review (T1).

    python -m bench.markdown_fragments                 # writes docs/images/markdown-fragments.png

Each row has the fragment, its Markdown, and what a reader sees. The fragments are our own.
"""

import argparse
from collections.abc import Sequence
from html import escape
from pathlib import Path

from playwright.sync_api import sync_playwright

from bench.screenshots import ARGUMENTS
from headwater.fetch.text.html_to_markdown import write_html
from headwater.fetch.text.markdown_writer import MarkdownWriter
from headwater.formats.markdown import markdown_to_html

_BASE = "https://example.org/rivers/"
_TARGET = Path(__file__).parents[1] / "docs" / "images" / "markdown-fragments.png"
FRAGMENTS = (
    "<p>The river rose.</p><p>It fell again.</p>",
    "<h2>Levels</h2><h3>In <em>March</em></h3><p>High.</p>",
    "The <b>upper</b> and the <i>lower</i> gauge, <b><i>both</i></b> of them.",
    "inter<b>nation</b>al, <b>'quoted'</b>x, <b>a</b><i>b</i>",
    "<ul><li>one</li><li>two<ul><li>two a</li><li>two b</li></ul></li><li>three</li></ul>",
    "<ol start=3><li>third<li><p>fourth<p>with a second paragraph</ol>",
    "<ol><li>a<ul><li>b<ol><li>c</ol></ul></ol>",
    "<blockquote><p>Water is the driving force.</p><p>A second line.</p></blockquote>after it",
    "<blockquote>outer<blockquote>inner</blockquote></blockquote>",
    "<ul><li><blockquote>a quote in a list</blockquote></li><li>next</li></ul>",
    '<pre><code>def level():\n    return 4 * "*"\n\n# ```</code></pre>',
    "Run <code>gauge --unit `cm`</code> and <kbd>Enter</kbd>.",
    "<ul><li>Run:<pre>make\nmake install</pre></li></ul>",
    "<table><tr><th>Gauge</th><th>cm</th></tr><tr><td>North</td><td>41</td></tr></table>",
    "<table><tr><td>a | b</td><td><code>x|y</code></td></tr><tr><td>c</td></tr></table>",
    "<table><tr><td><p>Layout</p><p>of a page</p></td><td>aside</td></tr></table>",
    "See <a href='/levels?a=1&amp;b=2'>the levels</a> and <a href='map_(1)'>a <b>map</b></a>!",
    "Write to <a href='mailto:gauge@example.org'>the gauge</a>.",
    "<a href='javascript:alert(1)'>no script</a> <a href='data:text/html,x'>no data</a>",
    "wow!<a href='https://example.org/x'>not an image</a>",
    "<img src=x.png alt='The river in March'> A picture, and o<img alt=ne>ne word.",
    "first line<br>second line<br><br>new paragraph",
    "1. not a list<br>- nor this<br># nor a heading<br>&gt; nor a quote",
    "*stars* _underscores_ snake_case `ticks` ~~tildes~~ [brackets](x) a\\b",
    "&lt;script&gt;alert(1)&lt;/script&gt; &amp;amp; &amp;copy;",
    "---<br>===<br>| a | b |<br>| --- | --- |",
    "<div>un<span>closed <b>bold <i>italic<p>next paragraph",
    "<dl><dt>Gauge</dt><dd>measures the level</dd></dl>",
    "<h1>C #</h1><script>hidden()</script><style>p{}</style>text<!-- comment -->",
    "Größe Ποτάμι <b>река.</b>вода",
)
_STYLE = """
body { font: 14px sans-serif; margin: 16px; width: 1400px }
table.f { border-collapse: collapse; width: 100% }
.f > tbody > tr > td { border: 1px solid #ccc; vertical-align: top; padding: 6px 10px; width: 33% }
.f pre.s { white-space: pre-wrap; margin: 0; font-size: 12px; overflow-wrap: anywhere }
.r > :first-child { margin-top: 0 }
.r > :last-child { margin-bottom: 0 }
.r table { border-collapse: collapse }
.r td, .r th { border: 1px solid #bbb; padding: 2px 8px }
.r blockquote { border-left: 3px solid #bbb; margin: 6px; padding-left: 8px }
.r pre { background: #eee; padding: 6px }
"""


def markdown_of(html: str) -> str:
    """The Markdown of one fragment."""
    writer = MarkdownWriter(_BASE, length=len(html))
    write_html(html, writer)
    return writer.finish()


def page() -> str:
    """The page with all fragments."""
    rows = "".join(_row(html, markdown_of(html)) for html in FRAGMENTS)
    head = "<thead><tr><th>HTML</th><th>Markdown</th><th>rendered</th></tr></thead>"
    return (
        f"<!doctype html><meta charset=utf-8><style>{_STYLE}</style>"
        f"<table class=f>{head}<tbody>{rows}</tbody></table>"
    )


def _row(html: str, markdown: str) -> str:
    sources = "".join(f"<td><pre class=s>{escape(text)}</pre></td>" for text in (html, markdown))
    return f"<tr>{sources}<td><div class=r>{markdown_to_html(markdown)}</div></td></tr>"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the screenshot."""
    parser = argparse.ArgumentParser(prog="python -m bench.markdown_fragments")
    parser.add_argument("target", nargs="?", type=Path, default=_TARGET)
    options = parser.parse_args(arguments)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=ARGUMENTS)
        shown = browser.new_page(viewport={"width": 1440, "height": 900})
        shown.set_content(page())
        shown.screenshot(path=options.target, full_page=True)
        browser.close()


if __name__ == "__main__":
    main()
