"""An invalid configuration is a one-line error that names its key."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import ConfigError
from headwater.settings import effective
from tests.settings.loaded_settings import load, problem


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("source: {max-failures: 0}", "app.source.max-failures: must be at least 1, not 0"),
        (
            'source: {max-failures: "abc"}',
            'app.source.max-failures: must be a whole number, not "abc"',
        ),
        ('source: {max-failures: "3"}', 'app.source.max-failures: must be a whole number, not "3"'),
        (
            "source: {max-failures: true}",
            "app.source.max-failures: must be a whole number, not true",
        ),
        ("source: {max-failures: 5.0}", "app.source.max-failures: must be a whole number, not 5.0"),
        ("source: {max-failures: }", "app.source.max-failures: must be a whole number, not null"),
        ("source: {max-failures: [1]}", "app.source.max-failures: must be a whole number, not [1]"),
        (
            "source: {late-entry-hours: -1}",
            "app.source.late-entry-hours: must be at least 0, not -1",
        ),
        ("source: {paused: 1}", "app.source.paused: must be true or false, not 1"),
        ("source: {tick-seconds: 0.5}", "app.source.tick-seconds: must be at least 1, not 0.5"),
        ("source: {tick-seconds: yes}", "app.source.tick-seconds: must be a number, not true"),
        ("shutdown-seconds: .nan", "app.shutdown-seconds: must be a finite number, not nan"),
        ("shutdown-seconds: .inf", "app.shutdown-seconds: must be a finite number, not inf"),
        (
            "source: {max-backoff-hours: 1000001}",
            "app.source.max-backoff-hours: must be at most 1000000, not 1000001",
        ),
        ("server: {port: 65536}", "app.server.port: must be at most 65535, not 65536"),
        (
            "source: {max_failures: 3}",
            "app.source.max_failures: unknown key; did you mean max-failures?",
        ),
        ("sauce: {}", "app.sauce: unknown key; did you mean source?"),
        (
            "source: {poll-delay-seconds: {atom: 1}}",
            "app.source.poll-delay-seconds.atom: unknown key; known are rss, twitter, website",
        ),
        (
            "source: {poll-delay-seconds: {rss: -1}}",
            "app.source.poll-delay-seconds.rss: must be at least 0, not -1",
        ),
        (
            "source: {host-overrides: {Nitter.net: {poll-delay-seconds: no}}}",
            "app.source.host-overrides.nitter.net.poll-delay-seconds: must be a number, not false",
        ),
        (
            "source: {host-overrides: {nitter.net: {poll-delay: 1}}}",
            (
                "app.source.host-overrides.nitter.net.poll-delay: unknown key;"
                " did you mean poll-delay-seconds?"
            ),
        ),
        (
            "source: {host-overrides: {nitter.net: {hold-scope: lane}}}",
            (
                "app.source.host-overrides.nitter.net.hold-scope:"
                " must be one of 'host' or 'source', not \"lane\""
            ),
        ),
        (
            "source: {host-overrides: {a.example: {}, A.example: {}}}",
            None,  # no key is set twice
        ),
        (
            "source: {host-overrides: {a.org: {hold-scope: host}, A.org: {hold-scope: host}}}",
            "app.source.host-overrides.a.org.hold-scope: given twice, in two spellings",
        ),
        (
            "source: {host-overrides: {127.1: {}}}",
            "app.source.host-overrides: must have text as keys (use quotes), not 127.1",
        ),
        ("source: [1]", "app.source: must have keys, not a list"),
        (
            "source: {host-overrides: 3}",
            "app.source.host-overrides: must have keys, not a single value",
        ),
        (
            "source: {aggregate-hosts: nitter.net}",
            'app.source.aggregate-hosts: must be a list, not "nitter.net"',
        ),
        ("source: {aggregate-hosts: [a, 3]}", "app.source.aggregate-hosts[1]: must be text, not 3"),
        (
            "server: {allowed-hosts: ['*']}",
            'app.server.allowed-hosts[0]: must be a host name or an address, not "*"',
        ),
        (
            "server: {trusted-proxies: [10.0.0.1, 10.0.0.1/8]}",
            (
                "app.server.trusted-proxies[1]: must be an address or a network"
                ' such as 10.1.2.0/24, not "10.0.0.1/8"'
            ),
        ),
        (
            "server: {trusted-proxies: [10]}",
            (
                "app.server.trusted-proxies[0]: must be an address or a network"
                " such as 10.1.2.0/24, not 10"
            ),
        ),
        ("server: {host: ''}", 'app.server.host: must be a host name or an address, not ""'),
        ("log: {format: xml}", "app.log.format: must be one of 'text' or 'json', not \"xml\""),
        (
            "fetch: {allow-private-networks: 192.168.1.0/24}",
            (
                "app.fetch.allow-private-networks: must be true, false or a list of networks"
                ' such as [192.168.1.0/24], not "192.168.1.0/24"'
            ),
        ),
        (
            "fetch: {allow-private-networks: [10]}",
            (
                "app.fetch.allow-private-networks: must be true, false or a list of networks"
                " such as [192.168.1.0/24], not [10]"
            ),
        ),
        (
            "fetch: {allow-private-networks: [10.0.0.1/8]}",
            (
                "app.fetch.allow-private-networks: must be true, false or a list of networks"
                " such as [192.168.1.0/24], not ['10.0.0.1/8']"
            ),
        ),
    ],
)
def test_g1_an_invalid_value_is_a_one_line_error_with_its_key(tmp_path, text, line):
    text = f"app:\n  {text}\n"
    if line is None:
        load(tmp_path, text)
    else:
        assert problem(tmp_path, text) == f"{line} (headwater.yaml)"


@pytest.mark.parametrize(
    "host",
    ["b d", "", "*", "*.", "*.*.org", "a.*.org", "http://a.org", "a.org:80", "*.127.0.0.1", "a..b"],
)
def test_p2_a_key_of_host_overrides_is_a_host_or_a_wildcard(tmp_path, host):
    text = yaml.safe_dump({"app": {"source": {"host-overrides": {host: {"hold-scope": "host"}}}}})
    assert "the key must be a host" in problem(tmp_path, text)


@pytest.mark.parametrize(
    ("host", "normal"),
    [
        ("NITTER.net.", "nitter.net"),
        ("*.Substack.COM", "*.substack.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("127.1", "127.0.0.1"),
        ("::0001", "::1"),
        ("[::1]", "::1"),
    ],
)
def test_p1_hosts_are_normalised(tmp_path, host, normal):
    text = yaml.safe_dump({"app": {"source": {"host-overrides": {host: {"hold-scope": "host"}}}}})
    assert list(load(tmp_path, text).source.host_overrides) == [normal]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("app: {a: 1\n", "headwater.yaml, line 2: expected ',' or '}', but got '<stream end>'"),
        (
            "app:\n\tx: 1\n",
            "headwater.yaml, line 2: found character '\\\\t' that cannot start any token",
        ),
        ("foo: 1", "headwater.yaml: all settings belong under the key app, which is missing"),
        ("[app]", "headwater.yaml: all settings belong under the key app, which is missing"),
        ("app: {}\nfoo: 1", 'headwater.yaml: unknown key "foo"; all settings belong under app'),
        ("app: 3", "app: must have keys, not a single value (headwater.yaml)"),
        (
            "app:\n  x: {}\n  source:\n    max-failures: 1\n    max-failures: 2\n",
            "headwater.yaml, line 5: the key max-failures is given twice",
        ),
        ("app: {}\napp: {}", "headwater.yaml, line 2: the key app is given twice"),
        ("app: {}\n---\napp: {}", "headwater.yaml, line 2: but found another document"),
        ("app: {[a]: 1}", "headwater.yaml, line 1: found unhashable key"),
    ],
)
def test_g1_a_broken_file_is_a_one_line_error_with_its_position(tmp_path, text, line):
    assert problem(tmp_path, text) == line


@pytest.mark.parametrize(
    "text",
    [
        "app: !!python/object/apply:os.system ['true']",
        "app: !!python/name:os.system",
        "app: &a {source: *a}",
        "app: {x: 2026-13-45}",
        "app: {x: !!int abc}",
        "app: {source: {max-failures: " + "9" * 5000 + "}}",
        "app: " + "[" * 100_000,
        "app: \x01",
        "app: {source: {aggregate-hosts: &a [*a]}}",
        (
            "app: {source: {max-failures: [&a [x,x,x,x], &b [*a,*a,*a,*a,*a,*a,*a,*a], "
            "&c [*b,*b,*b,*b,*b,*b,*b,*b], &d [*c,*c,*c,*c,*c,*c,*c,*c], "
            "&e [*d,*d,*d,*d,*d,*d,*d,*d], &f [*e,*e,*e,*e,*e,*e,*e,*e], "
            "&g [*f,*f,*f,*f,*f,*f,*f,*f], [*g,*g,*g,*g,*g,*g,*g,*g]]}}"
        ),
        "app: {source: {max-failures: " + "x" * 100_000 + "}}",
        'app: {"a\\nb": 1}',
        'app: {source: {max-failures: "a\\nb\\e[31m"}}',
        "#" * 2_000_000,
    ],
)
def test_q1_a_hostile_file_is_a_one_line_error(tmp_path, text):
    problem(tmp_path, text)


def test_g1_a_file_that_is_no_utf8_is_refused(tmp_path):
    (tmp_path / "headwater.yaml").write_bytes(b"app: {x: \xff}")
    assert problem(tmp_path) == "headwater.yaml: not UTF-8 text (byte 9)"


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["source", "max-failures", "fetch", "host-overrides", "nitter.net", "x"])
        | st.text(),
        inner,
        max_size=3,
    ),
))  # fmt: skip
def test_g1_any_file_loads_or_is_a_one_line_error(tmp_path_factory, tree):
    folder = tmp_path_factory.getbasetemp()
    (folder / "headwater.yaml").write_text(yaml.safe_dump({"app": tree}), encoding="utf-8")
    try:
        effective(load(folder))
    except ConfigError as error:
        assert str(error).isprintable()
    finally:
        (folder / "headwater.yaml").unlink()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "APP__SOURCE__MAX_FAILURE",
            "APP__SOURCE__MAX_FAILURE: unknown variable; did you mean APP__SOURCE__MAX_FAILURES?",
        ),
        ("APP__FOO", "APP__FOO: unknown variable"),
        ("APP__", "APP__: unknown variable"),
        ("APP__SOURCE__MAX_FAILURES__X", "APP__SOURCE__MAX_FAILURES__X: unknown variable"),
        ("APP__SOURCE", "APP__SOURCE: unknown variable"),
        ("APP__source__max_failures", "APP__source__max_failures: unknown variable"),
        ("APP__X\nY", "APP__X\\nY: unknown variable"),
        (
            "APP__SOURCE__POLL_DELAY_SECONDS__ATOM",
            (
                "app.source.poll-delay-seconds.atom: unknown key; known are rss, twitter, website"
                " (APP__SOURCE__POLL_DELAY_SECONDS__ATOM)"
            ),
        ),
        (
            "APP__SOURCE__HOST_OVERRIDES__NITTER_NET__HOLD_SCOPE",
            (
                "APP__SOURCE__HOST_OVERRIDES__NITTER_NET__HOLD_SCOPE: a host name cannot be"
                " written with _ for dots; set APP__SOURCE__HOST_OVERRIDES as JSON"
            ),
        ),
        (
            "APP__SOURCE__HOST_OVERRIDES",
            (
                "app.source.host-overrides: must have keys, not a single value"
                " (APP__SOURCE__HOST_OVERRIDES)"
            ),
        ),
        (
            "APP__SOURCE__MAX_FAILURES",
            'app.source.max-failures: must be a whole number, not "{" (APP__SOURCE__MAX_FAILURES)',
        ),
    ],
)
def test_g1_an_invalid_variable_is_named(tmp_path, name, line):
    assert problem(tmp_path, environ={name: "{"}).startswith(line)


def test_g1_a_json_object_with_a_key_twice_is_refused(tmp_path):
    text = '{"rss": 1, "rss": 2}'
    line = problem(tmp_path, environ={"APP__SOURCE__POLL_DELAY_SECONDS": text})
    assert line.startswith('app.source.poll-delay-seconds: "rss" is given twice')


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("app.server.port", "abc", 'app.server.port: must be a whole number, not "abc" (option)'),
        ("app.server.port", -1, "app.server.port: must be at least 0, not -1 (option)"),
        ("app.server.prt", 1, "app.server.prt: unknown key; did you mean port? (option)"),
        (
            "app.server.port.x",
            1,
            "app.server.port: must be a whole number, not {'x': 1} (option)",
        ),
    ],
)
def test_g1_an_invalid_option_is_named(tmp_path, key, value, line):
    assert problem(tmp_path, options={key: value}) == line


def test_g1_of_several_problems_the_first_is_reported_in_one_line(tmp_path):
    line = problem(tmp_path, "app: {source: {tick-seconds: 0, max-failures: 0}}")
    assert line == (
        "app.source.tick-seconds: must be at least 1, not 0 (headwater.yaml); 1 more like this"
    )
