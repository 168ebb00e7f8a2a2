"""Clicks on the blocks of a page, and the settings they lead to (W4)."""

import random

import pytest

from headwater.errors import NotFound
from headwater.fetch.page.page_blocks import page_blocks
from headwater.rules.watched_parts import PageBlock, toggled
from headwater.watch_settings import WatchSettings
from tests.fetch.test_page_blocks import PAGE, URL


def click(watch, selector):
    return toggled(watch, page_blocks(PAGE, URL, watch), selector)


def watched(watch):
    return {block.selector for block in page_blocks(PAGE, URL, watch) if block.is_watched}


@pytest.mark.parametrize(
    ("clicks", "include", "exclude"),
    [
        ([".prices"], (), (".prices",)),
        ([".prices", ".prices"], (), ()),
        (["#side"], ("main", "#side"), (".teasers",)),
        (["#side", "#side"], ("main",), (".teasers",)),
        (["#side", "main"], ("main", "#side"), ()),
        (["#side", "main", "main"], ("#side",), ()),
        (["#side", "main", "main", "#side"], (), ()),  # back to the main text
        (["main"], ("main",), ()),
        (["main", ".prices", "h1"], ("main",), (".prices", "h1")),
        (["main", ".prices", "h1", "main"], ("main",), ()),
        (["main", ".prices", "table"], ("main",), ()),  # inside of what is excluded
        ([".wrap"], (".wrap",), ()),
        ([".clock"], ("main", ".clock"), (".teasers",)),
    ],
)
def test_w4_a_click_includes_or_excludes_a_block(clicks, include, exclude):
    watch = WatchSettings()
    for selector in clicks:
        watch = click(watch, selector)
    assert (watch.include, watch.exclude) == (include, exclude)


def test_w4_only_one_block_is_watched_with_all_that_is_in_it():
    watch = WatchSettings(include=("main", "#side"), exclude=(".prices",), ignore=("#:#",))
    only = toggled(watch, page_blocks(PAGE, URL, watch), ".prices", only=True)
    assert only == WatchSettings(include=(".prices",), ignore=("#:#",))
    assert watched(only) == {".prices", "table"}


def test_w4_any_click_turns_a_block_on_or_off():
    rng = random.Random(3)
    for _ in range(30):
        watch = WatchSettings(ignore=("It is #:#",))
        for _ in range(8):
            block = rng.choice(page_blocks(PAGE, URL, watch))
            watch = click(watch, block.selector)
            assert watch.ignore == ("It is #:#",)
            if watch.include:  # else the main text is found by rules
                assert (block.selector in watched(watch)) is not block.is_watched, (watch, block)


def test_w4_an_unknown_block_is_reported():
    with pytest.raises(NotFound, match=r"no block '\.gone'"):
        click(None, ".gone")


def test_w4_more_parts_than_the_setting_has_room_for_are_refused():
    blocks = [PageBlock(f".b{n}", 0, "x", 1, 0) for n in range(30)]
    watch = WatchSettings(include=tuple(block.selector for block in blocks[:20]))
    with pytest.raises(ValueError, match="at most 20"):
        toggled(watch, blocks, ".b25")
