"""Choosing the watched parts of a page, block by block (W4)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from headwater.errors import NotFound
from headwater.watch_settings import WatchSettings

_Parts = tuple[list[str], list[str]]  # to include and to exclude


@dataclass(frozen=True, slots=True)
class PageBlock:
    """What a selector matches of a page: one element, or all children with one tag of another."""

    selector: str
    depth: int  # how many of the listed blocks it is inside of
    text: str  # its beginning
    length: int  # of its whole text, in characters
    watched_length: int  # of what the settings keep of it
    count: int = 1  # elements that the selector matches

    @property
    def is_watched(self) -> bool:
        """Whether all of it is watched."""
        return self.watched_length == self.length


@dataclass(frozen=True, slots=True)
class _Node:
    """A block with the blocks inside of it."""

    block: PageBlock
    inner: "tuple[_Node, ...]"

    def each(self) -> Iterator[PageBlock]:
        yield self.block
        for node in self.inner:
            yield from node.each()


def toggled(
    watch: WatchSettings | None,
    blocks: Sequence[PageBlock],
    selector: str,
    *,
    only: bool = False,
) -> WatchSettings:
    """The settings after a click on a block: watched as a whole, or not at all if it was.

    `only`: it is watched as a whole, and nothing else is. Raises NotFound if the page has no such
    block, and ValueError if the settings have no room.
    """
    watch = watch or WatchSettings()
    index = next((i for i, block in enumerate(blocks) if block.selector == selector), None)
    if index is None:
        raise NotFound(f"the page has no block {selector!r}")
    if only:
        return replace(watch, include=(selector,), exclude=())
    change = _without if blocks[index].is_watched else _with
    include, exclude = change(watch, blocks, index)
    return replace(watch, include=tuple(include), exclude=tuple(dict.fromkeys(exclude)))


def _without(watch: WatchSettings, blocks: Sequence[PageBlock], index: int) -> _Parts:
    selector, inner = blocks[index].selector, _inner(blocks, index)
    include = [one for one in watch.include if one not in inner and one != selector]
    exclude = [one for one in watch.exclude if one not in inner]
    if watch.include and not include:
        return include, exclude  # the last part: the main text of the page is watched again
    if selector not in watch.include or not _outer(blocks, index).isdisjoint(include):
        exclude.append(selector)
    return include, exclude


def _with(watch: WatchSettings, blocks: Sequence[PageBlock], index: int) -> _Parts:
    selector, inner, outer = blocks[index].selector, _inner(blocks, index), _outer(blocks, index)
    within = {selector, *inner}
    include = [one for one in watch.include if one not in inner]
    exclude = [one for one in watch.exclude if one not in within]
    if not watch.include:
        if len(exclude) < len(watch.exclude):
            return include, exclude  # it was part of the main text
        named = list(_named(_trees(blocks)))  # from here on parts are named, not found
        include = [one.selector for one, is_in in named if is_in and one.selector not in within]
        exclude += [one.selector for one, is_in in named if not is_in]
    exclude = [one for one in exclude if one not in outer and one not in within]
    if outer.isdisjoint(include) and selector not in include:
        include.append(selector)
    return include, exclude


def _outer(blocks: Sequence[PageBlock], index: int) -> set[str]:
    """The selectors of the blocks around one."""
    found, depth = set(), blocks[index].depth
    for block in reversed(blocks[:index]):
        if block.depth < depth:
            found.add(block.selector)
            depth = block.depth
    return found


def _inner(blocks: Sequence[PageBlock], index: int) -> set[str]:
    """The selectors of the blocks inside of one."""
    deeper = takewhile(lambda one: one.depth > blocks[index].depth, blocks[index + 1 :])
    return {block.selector for block in deeper}


def _trees(blocks: Iterable[PageBlock]) -> tuple[_Node, ...]:
    """The outermost blocks with what is inside of them."""
    levels: list[tuple[PageBlock, list[_Node]]] = []  # the open blocks
    found: list[_Node] = []

    def close(depth: int) -> None:
        while len(levels) > depth:
            block, inner = levels.pop()
            (levels[-1][1] if levels else found).append(_Node(block, tuple(inner)))

    for block in blocks:
        close(block.depth)
        levels.append((block, []))
    close(0)
    return tuple(found)


def _named(nodes: Iterable[_Node]) -> Iterator[tuple[PageBlock, bool]]:
    """The blocks that name what is watched: those to include, and those in them to exclude.

    A group such as all paragraphs of `main` is not included for it: a later heading would be lost.
    """
    for node in nodes:
        block = node.block
        if not block.watched_length:
            continue
        within = list(_named(one for one in node.inner if one.block.count == 1))
        if not block.is_watched and sum(_watched(one) for one in within) == block.watched_length:
            yield from within
            continue
        yield block, True
        for other in node.inner:
            yield from ((one, False) for one in other.each() if not one.watched_length)


def _watched(named: tuple[PageBlock, bool]) -> int:
    block, is_included = named
    return block.watched_length if is_included else 0
