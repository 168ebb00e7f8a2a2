"""Reads and writes the YAML file of a user's podcasts, sources, filters and searches (V3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import yaml

from headwater.errors import TooMuch, UsageError
from headwater.formats.yaml_document import Node, Place, read_yaml
from headwater.model import PODCAST_SETTINGS
from headwater.source_settings import SETTINGS, Setting, SettingValues

MAX_BYTES = 8 * 1024 * 1024
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # compiled where available
_LINE = 1_000_000  # characters: no value is folded
_HEAD = """\
# Podcasts, sources, filters and saved searches of Headwater. `headwater apply FILE` applies this
# file. Addresses may contain passwords and tokens: treat it as a secret.
"""


@dataclass(frozen=True, slots=True)
class Located:
    """A part of a file, with the places of its keys."""

    place: Place | None = field(default=None, compare=False, kw_only=True)
    places: Mapping[str, Place] = field(default_factory=dict, compare=False, kw_only=True)

    def error(self, message: str, key: str | None = None) -> UsageError:
        """An error at the place of a key, else of the whole part."""
        place = self.places.get(key or "", self.place)
        return UsageError(message) if place is None else place.error(message)


@dataclass(frozen=True, slots=True)
class ConfiguredSearch(Located):
    """A saved search in a file."""

    name: str
    query: str


@dataclass(frozen=True, slots=True)
class ConfiguredSource(Located):
    """A source in a file: the settings that are given."""

    settings: SettingValues
    copy: int = 1  # the number of the source among those of the podcast with its URL
    id: str | None = None


@dataclass(frozen=True, slots=True)
class ConfiguredPodcast(Located):
    """A podcast in a file: the settings that are given."""

    name: str
    settings: SettingValues
    sources: Sequence[ConfiguredSource] = ()
    searches: Sequence[ConfiguredSearch] = ()
    id: str | None = None


def read_configuration(data: bytes, file: str) -> list[ConfiguredPodcast]:
    """The podcasts of a file; a UsageError has the place of what is wrong."""
    if len(data) > MAX_BYTES:
        raise TooMuch(f"{file}: larger than {MAX_BYTES // 1024**2} MiB; split it by podcasts")
    root = read_yaml(data, file)
    given = {} if root is None else root.fields("the file", ["podcasts"])
    if "podcasts" not in given:
        raise UsageError(f"{file}: the key `podcasts` is missing")
    podcasts = [_podcast(node) for node in given["podcasts"].items("`podcasts`")]
    _refuse_twice(podcasts, [f"the podcast {podcast.name!r}" for podcast in podcasts])
    _refuse_same_ids(podcasts)
    return podcasts


def _podcast(node: Node) -> ConfiguredPodcast:
    names = _by_json_name(PODCAST_SETTINGS)
    known = ["name", "id", *names, "sources", "searches"]
    keys = node.fields("a podcast", known)
    sources = [_source(one) for one in _list(keys, "sources")]
    searches = [_search(one) for one in _list(keys, "searches")]
    _refuse_twice(searches, [f"the search {search.name!r}" for search in searches])
    _refuse_same_ids(sources)
    _check_copies(sources)
    return ConfiguredPodcast(
        name=_text(node, keys, "name", "a podcast"),
        settings=_settings(keys, names),
        sources=sources,
        searches=searches,
        id=_text(node, keys, "id", "a podcast") if "id" in keys else None,
        place=node.place,
        places=_places(keys),
    )


def _source(node: Node) -> ConfiguredSource:
    names = _by_json_name(SETTINGS)
    keys = node.fields("a source", [*names, "copy", "id"])
    copy = keys["copy"].value if "copy" in keys else 1
    if type(copy) is not int or copy < 1:
        raise keys["copy"].place.error("copy must be a whole number from 1 on")
    url = _text(node, keys, "url", "a source").strip()
    return ConfiguredSource(
        settings=_settings(keys, names) | {"url": url},
        copy=copy,
        id=_text(node, keys, "id", "a source") if "id" in keys else None,
        place=node.place,
        places=_places(keys),
    )


def _search(node: Node) -> ConfiguredSearch:
    keys = node.fields("a search", ["name", "query"])
    name, query = (_text(node, keys, key, "a search") for key in ("name", "query"))
    return ConfiguredSearch(name, query, place=node.place, places=_places(keys))


def _list(keys: Mapping[str, Node], key: str) -> list[Node]:
    return keys[key].items(f"`{key}`") if key in keys else []


def _places(keys: Mapping[str, Node]) -> dict[str, Place]:
    return {key: node.place for key, node in keys.items()}


def _by_json_name(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    return {setting.json_name: setting for setting in settings.values()}


def _text(node: Node, keys: Mapping[str, Node], key: str, what: str) -> str:
    if key not in keys:
        raise node.place.error(f"{what} needs the key `{key}`")
    text = keys[key].text
    if not text or keys[key].value is None:
        raise keys[key].place.error(f"{key} must be text")
    return text


def _settings(keys: Mapping[str, Node], names: Mapping[str, Setting]) -> dict[str, Any]:
    """The typed values of the settings that are given."""
    given: dict[str, Any] = {}
    for key, setting in names.items():
        if key not in keys:
            continue
        node = keys[key]
        # a text need not be in quotes, even if it looks like a number
        is_text = setting.kind is str and node.text is not None and node.value is not None
        try:
            given[setting.name] = setting.from_json(node.text if is_text else node.plain())
        except (TypeError, ValueError) as error:
            raise node.place.error(f"{key} {error}") from error
    return given


def _refuse_twice(parts: Sequence[ConfiguredPodcast | ConfiguredSearch], names: list[str]) -> None:
    first: dict[str, Located] = {}
    for part, name in zip(parts, names, strict=True):
        other = first.setdefault(part.name, part)
        if other is not part:
            line = other.place.line if other.place else 0
            raise part.error(f"{name} is given twice (line {line})", "name")


def _refuse_same_ids(parts: Sequence[ConfiguredPodcast | ConfiguredSource]) -> None:
    ids = set[str]()
    for part in parts:
        if part.id in ids:
            raise part.error("this id is given twice", "id")
        ids |= {part.id} if part.id is not None else set()


def _check_copies(sources: Sequence[ConfiguredSource]) -> None:
    """Refuse a source that is given twice: the copies of a URL are numbered from 1 on."""
    lines: dict[str, list[int]] = {}
    for source in sources:
        copies = lines.setdefault(source.settings["url"], [])
        expected = len(copies) + 1
        if source.copy < expected:
            raise source.error(
                f"this source is given twice (line {copies[source.copy - 1]}); another source "
                f"with the same address needs `copy: {expected}`",
                "url",
            )
        if source.copy > expected:
            raise source.error(f"`copy: {expected}` of this address must come before", "copy")
        copies.append(source.place.line if source.place else 0)


def write_configuration(podcasts: Sequence[ConfiguredPodcast]) -> bytes:
    """The file of these podcasts, with the settings that are not the default."""
    tree = {"podcasts": [_podcast_tree(podcast) for podcast in podcasts]}
    text = yaml.dump(tree, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=_LINE)
    return (_HEAD + text).encode()


def _podcast_tree(podcast: ConfiguredPodcast) -> dict[str, Any]:
    tree: dict[str, Any] = {"name": podcast.name}
    if podcast.id is not None:
        tree["id"] = podcast.id
    tree |= _differing(podcast.settings, PODCAST_SETTINGS)
    searches = [{"name": search.name, "query": search.query} for search in podcast.searches]
    tree |= {"searches": searches} if searches else {}
    return tree | {"sources": [_source_tree(source) for source in podcast.sources]}


def _source_tree(source: ConfiguredSource) -> dict[str, Any]:
    tree = _differing(source.settings, SETTINGS)
    return tree | ({"copy": source.copy} if source.copy > 1 else {})


def _differing(values: SettingValues, settings: Mapping[str, Setting]) -> dict[str, Any]:
    return {
        setting.json_name: _yaml_value(values[name])
        for name, setting in settings.items()
        if values[name] != setting.default
    }


def _yaml_value(value: Any) -> Any:
    """A value of types that YAML has; a structure without fields that have their default."""
    if is_dataclass(value):
        own = [one.name for one in fields(value) if getattr(value, one.name) != one.default]
        return {name: _yaml_value(getattr(value, name)) for name in own}
    if isinstance(value, tuple):
        return [_yaml_value(one) for one in value]
    return str(value) if isinstance(value, str) else value
