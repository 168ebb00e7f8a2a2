"""Finds lists of other articles, such as "Most popular", in the text of a page (W1)."""

import re
from collections.abc import Sequence

from headwater.fetch.page.html_blocks import Block, HtmlPage, Line

_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_STORIES = r"(?:news|stories|articles?|posts?|content|headlines|videos|coverage|reading|links)"
_ADJECTIVE = r"(?:latest|recent|popular|trending|top|featured|recommended|related|similar|other)"
_TITLE = re.compile(  # of such a list, in some languages
    rf"""
    (?: our | the | your )?\s*
    (?: most\s(?:popular|read|viewed|shared|commented|recent)
        | (?:{_ADJECTIVE}\s)+{_STORIES}
        | (?:related | trending(?:\snow)? | popular(?:\snow)?)(?=\W*\Z) | recommended\sfor\syou
        | you\s(?:may|might)\s(?:also|like|enjoy|be\sinterested)
        | more\s(?:from|in|on|like|{_STORIES})
        | (?:what\sto\s)?read\s(?:next|also) | also\sread | up\snext | don.?t\smiss
        | in\sother\snews | editor.{{0,2}}s?\s(?:picks?|choice) | from\saround\sthe\sweb
        | das\skönnte\s(?:sie|dich)\sauch | mehr\s(?:zum\sthema|artikel|aus) | lesen\ssie\sauch
        | meistgelesen | am\smeisten\sgelesen | auch\sinteressant | weitere\sartikel
        | (?:à\s)?lire\saussi | à\slire | sur\sle\smême\s(?:sujet|thème) | les\splus\slus
        | leggi\sanche | potrebbe(?:ro)?\sinteressarti | i\spiù\sletti | articoli\scorrelati
        | (?:leia|veja)\s(?:também|mais) | mais\slidas | notícias\srelacionadas
        | (?:lea|ver|lee)\stambién | te\spuede\sinteresar | (?:lo\s)?más\sleído
        | noticias\srelacionadas | lees\sook | meest\sgelezen | gerelateerd
        | самые\sпопулярн\w+ | популярн\w+\s(?:новости|статьи) | читайте\sтакже
        | похожие\s\w+ | другие\sновости
    )(?!\w)
    | (?: 関連記事 | 人気記事 | おすすめ記事 | 相关(?:阅读|新闻|文章) | 推荐阅读 | 热门(?:文章|新闻)
        | 관련\s?기사
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_MAX_TITLE = 60  # characters
_MAX_REST = 20  # of a title that is not a heading, after the words above
_PARAGRAPH = 200  # characters without links that no teaser has
_MIN_LINKS = 2
_MAX_TEASER_LINES = 3  # from one link to the next; keeps the search linear too
_MAX_ANCESTORS = 4
_LISTS = frozenset({"ul", "ol"})
_MOST = 0.4  # of the text: a page may consist of such a list


def lines_of_other_articles(page: HtmlPage, root: Block, numbers: Sequence[int]) -> set[int]:
    """The given lines of a block that belong to lists of other articles, with their titles."""
    found: set[int] = set()
    position = 0
    while position < len(numbers):
        end = _end_of_list(page, root, numbers, position)
        found.update(numbers[position:end])
        position = max(end, position + 1)
    lengths = {number: len(page.lines[number].text) for number in numbers} if found else {}
    is_most = sum(lengths[number] for number in found) > _MOST * sum(lengths.values())
    return set() if is_most else found


def _end_of_list(page: HtmlPage, root: Block, numbers: Sequence[int], start: int) -> int:
    """The position after the list that a line is the title of; `start` if it is none."""
    title = numbers[start]
    if not _is_title(page.lines[title]):
        return start
    if start + 1 == len(numbers):
        return start + 1  # its list is loaded by a script
    end_line = _end_line(page, root, title, numbers[start + 1])
    end, links, last_link = start + 1, 0, start
    while end < len(numbers) and numbers[end] < end_line and end - last_link <= _MAX_TEASER_LINES:
        line = page.lines[numbers[end]]
        if 2 * line.link_length >= len(line.text):
            links, last_link = links + 1, end
        elif line.block.name in _HEADINGS or len(line.text) - line.link_length > _PARAGRAPH:
            break
        end += 1
    return end if links >= _MIN_LINKS else start


def _end_line(page: HtmlPage, root: Block, title: int, following: int) -> int:
    """Where a list ends: with its element, else with the block around its title."""
    block = page.lines[following].block
    for _ in range(_MAX_ANCESTORS):
        if block.name in _LISTS and block.first_line > title:
            return block.end_line
        block = page.blocks[block.parent]
    around = page.lines[title].block
    while around.end_line <= title + 1 and around.index != root.index:
        around = page.blocks[around.parent]
    return around.end_line


def _is_title(line: Line) -> bool:
    text = line.text.rstrip(" :.…»›")
    if len(line.text) > _MAX_TITLE or line.text.endswith(("?", "!")):
        return False
    found = _TITLE.match(text)
    if found is None:
        return False
    is_heading = line.block.name in _HEADINGS
    return is_heading or len(text) - found.end() <= _MAX_REST
