"""Texts as pages show them."""

from headwater.web.humanize import with_code


def test_y2_what_is_between_backticks_is_shown_as_code_and_escaped():
    shown = with_code("Free <some> space; `headwater vacuum <b>` helps, ` is no code.")
    code = "<code>headwater vacuum &lt;b&gt;</code>"
    assert shown == f"Free &lt;some&gt; space; {code} helps, ` is no code."
