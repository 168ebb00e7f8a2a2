"""A wrong configuration file is refused in one line that names the place (V3)."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.errors import UsageError
from headwater.formats.configuration_file import (
    MAX_BYTES,
    ConfiguredPodcast,
    ConfiguredSearch,
    ConfiguredSource,
    read_configuration,
    write_configuration,
)
from headwater.model import PODCAST_SETTINGS
from headwater.source_settings import SETTINGS, SourceType
from headwater.watch_settings import WatchSettings

START = """\
podcasts:
  - name: morning
    sources:
      - url: https://example.org/feed
"""


def refusal(text: str | bytes) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(UsageError) as raised:
        read_configuration(data, "f.yaml")
    message = str(raised.value)
    assert message.startswith("f.yaml")
    assert "\n" not in message
    assert len(message) < 500
    return message


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        (START + "        pollIntervall: 5\n", (5, 9), "did you mean `pollIntervalMinutes`?"),
        (START + "        poll_interval: 5\n", (5, 9), "did you mean `pollIntervalMinutes`?"),
        (START + "        pollIntervalMinutes: often\n", (5, 9), 'a whole number, not "often"'),
        (START + "        pollIntervalMinutes: 1.5\n", (5, 9), "a whole number, not 1.5"),
        (START + "        pollIntervalMinutes: yes\n", (5, 9), "a whole number, not true"),
        (START + "        pollIntervalMinutes:\n", (5, 9), "a whole number, not null"),
        (START + "        enabled: 1\n", (5, 9), "enabled must be true or false, not 1"),
        (START + "        label: [a]\n", (5, 9), "label must be text, not"),
        (START + "        type: podcast\n", (5, 9), "type must be one of rss, website, twitter"),
        (START + "        watch: main\n", (5, 9), "watch must be a JSON object"),
        (START + "        watch: {inclde: [a]}\n", (5, 9), "there is no field 'inclde'"),
        (START + "        watch: {include: 5}\n", (5, 9), "include must be a list of texts"),
        (START + "        copy: 0\n", (5, 9), "copy must be a whole number"),
        (START + "        copy: 2\n", (5, 9), "`copy: 1` of this address must come before"),
        (START + "\t    label: x\n", (5, 1), "a tab"),
        (START + "        label: x\n        label: y\n", (6, 9), "`label` is given twice (line 5)"),
        (START + "        label: &a x\n        folder: *a\n", (5, 16), "anchors (&) and aliases"),
        (START + "        label: !!python/name:os.system x\n", (5, 16), "tags such as"),
        (START + "        label: [[[[[[[[[[[[[[[[[[\n", None, "nested more than 16 levels deep"),
        (START + "        label: 'open\n", None, "not YAML"),
        (START + "        ? [a]\n        : 5\n", (5, 11), "a key must be text"),
        (START + "      - url: https://example.org/feed\n", (5, 9), "given twice (line 4)"),
        (START + "      - label: x\n", (5, 9), "a source needs the key `url`"),
        (START + "      - https://example.org/\n", (5, 9), "a source must be a mapping"),
        (START + "      - {url: b, id: x}\n      - {url: c, id: x}", (6, 18), "id is given twice"),
        (START + "    id: a\n  - {name: b, id: a}\n", (6, 15), "this id is given twice"),
        (START + "  - name: morning\n", (5, 5), "the podcast 'morning' is given twice (line 2)"),
        (START + "    searches: 5\n", (5, 5), "`searches` must be a list"),
        (START + "    searches: [{name: a, query: b}, {name: a, query: c}]", (5, 38), "twice"),
        (START + "    searches: [{name: a}]\n", (5, 16), "a search needs the key `query`"),
        (START + "    maxArticleAgeDay: 3\n", (5, 5), "did you mean `maxArticleAgeDays`?"),
        (START + "---\npodcasts: []\n", (5, 1), "more than one document"),
        ("podcasts: 5\n", (1, 1), "`podcasts` must be a list"),
        ("podcasts:\n  - sources: []\n", (2, 5), "a podcast needs the key `name`"),
        ("podcasts:\n  - name:\n", (2, 5), "name must be text"),
        ("podcast: []\n", (1, 1), "unknown key `podcast` of the file; did you mean `podcasts`?"),
        ("- a\n", (1, 1), "the file must be a mapping"),
        ("", None, "the key `podcasts` is missing"),
        ("# nothing\n", None, "the key `podcasts` is missing"),
        (b"podcasts: \xff", None, "not UTF-8"),
        (b"podcasts: \x00", None, "not YAML"),
        (b"podcasts: [0x_]", (1, 12), "is not a number"),
        (b"podcasts: [" + b"9" * 5000 + b"]", (1, 12), "must be a mapping"),
        (b"podcasts: []\n" + b"#" * MAX_BYTES, None, "larger than 8 MiB"),
    ],
)  # fmt: skip
def test_v3_a_wrong_file_is_refused_with_the_place(text, place, reason):
    message = refusal(text)
    assert reason in message
    if place is not None:
        assert message.startswith(f"f.yaml, line {place[0]}, column {place[1]}: ")


def test_v3_an_alias_bomb_is_refused_at_its_first_anchor():
    rows = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    bomb = "\n".join(["a0: &a0 [x, x, x, x, x, x, x, x, x]", *rows, "podcasts: *a9"])
    assert refusal(bomb).startswith("f.yaml, line 1, column 5: anchors")


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
@example(b"%YAML 9.9\n--- a")
@example(b"--- !!set {a}")
def test_v3_any_other_bytes_are_refused_in_one_line(data):
    try:
        read_configuration(data, "f.yaml")
    except UsageError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000, "1" + ":0" * 1_000_000])
def test_v3_a_number_of_very_many_digits_is_text(number):
    (podcast,) = read_configuration(f"{START}        label: {number}\n".encode(), "f.yaml")
    assert podcast.sources[0].settings["label"] == number
    assert "must be a whole number" in refusal(f"{START}        pollIntervalMinutes: {number}\n")


def test_v3_texts_need_no_quotes():
    fields = "        label: 2026\n        folder: no\n        keep: 2026-01-01\n        block: ~\n"
    (podcast,) = read_configuration((START + fields).encode(), "f.yaml")
    assert podcast.sources[0].settings == {
        "url": "https://example.org/feed",
        "label": "2026",
        "folder": "no",
        "keep": "2026-01-01",
        "block": None,
    }


characters = st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"])
texts = st.text(characters, min_size=1, max_size=20).filter(lambda text: text.strip() == text)
values = {int: st.integers(1, 500), bool: st.booleans(), str: texts}


def settings_of(settings):
    strategies = {
        name: (st.just(setting.default) if not setting.required else st.nothing())
        | values.get(setting.kind, st.nothing())
        | (st.just(WatchSettings(("main",), (), ("# & *",))) if name == "watch" else st.nothing())
        | (st.sampled_from(SourceType) if name == "type" else st.nothing())
        for name, setting in settings.items()
    }
    return st.fixed_dictionaries(strategies)


podcasts = st.lists(
    st.builds(
        ConfiguredPodcast,
        name=texts,
        settings=settings_of(PODCAST_SETTINGS),
        sources=st.lists(
            st.builds(ConfiguredSource, settings=settings_of(SETTINGS)),
            unique_by=lambda source: source.settings["url"],
            max_size=4,
        ),
        searches=st.lists(
            st.builds(ConfiguredSearch, name=texts, query=texts),
            unique_by=lambda search: search.name,
            max_size=2,
        ),
        id=st.none() | texts,
    ),
    unique_by=lambda podcast: podcast.name,
    max_size=3,
)


@given(podcasts)
def test_v3_a_written_file_is_read_as_it_was(given_podcasts):
    data = write_configuration(given_podcasts)
    found = read_configuration(data, "f.yaml")
    assert [without_defaults(podcast) for podcast in given_podcasts] == [
        (p.name, p.id, p.settings, [s.settings for s in p.sources], p.searches) for p in found
    ]


def without_defaults(podcast):
    sources = [differing(source.settings, SETTINGS) for source in podcast.sources]
    own = differing(podcast.settings, PODCAST_SETTINGS)
    return podcast.name, podcast.id, own, sources, podcast.searches


def differing(given_settings, settings):
    return {n: value for n, value in given_settings.items() if value != settings[n].default}
