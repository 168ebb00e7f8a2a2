"""Secrets from files: `…-file` keys, `…_FILE` variables and systemd credentials (U6)."""

from pathlib import Path

import pytest

from headwater.settings import effective
from headwater.settings.configuration_keys import SECRET_FILES, SECRET_KEYS, dotted, variable
from tests.settings.loaded_settings import KEY, load, problem

URL = "postgresql://anna:hush@db.example/headwater"
HEX = KEY.hex()
OTHER = bytes(reversed(range(32)))


@pytest.fixture
def secret(tmp_path):
    """Writes a file and returns its path."""

    def write(content, name="secret"):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(file)

    return write


def test_every_secret_has_a_file_key_and_is_documented():
    known = {"app.database-url", "app.fetch.proxy", "app.encryption.master-key"}
    assert known <= {dotted(path) for path in SECRET_KEYS}
    assert {dotted(path) for path in SECRET_FILES} == {f"{dotted(p)}-file" for p in SECRET_KEYS}
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    section = page.partition("\n## Secrets from files\n")[2].partition("\n## ")[0]
    assert {key for key in map(dotted, SECRET_KEYS) if f"`{key}`" not in section} == set()


def test_u6_a_secret_is_read_from_the_file_that_the_configuration_names(tmp_path, secret):
    settings = load(tmp_path, f"app: {{database-url-file: {secret(URL + chr(10))}}}")
    assert settings.database_url == URL
    (shown,) = (one for one in effective(settings) if one.key == "app.database-url")
    assert shown.origin == f"file {tmp_path}/secret"
    assert "hush" not in str(shown)


def test_u6_a_secret_is_read_from_the_file_that_a_variable_names(tmp_path, secret):
    files = {
        "APP__ENCRYPTION__MASTER_KEY_FILE": secret(f"  {HEX}\r\n"),
        "APP__ENCRYPTION__OLD_MASTER_KEYS_FILE": secret(f"{HEX}\n\n{OTHER.hex()}\n", "old"),
        "APP__FETCH__PROXY_FILE": secret("http://anna:hush@127.0.0.1:3128", "proxy"),
    }
    settings = load(tmp_path, environ=files)
    assert settings.encryption.master_key.get_secret_value() == KEY
    old = [key.get_secret_value() for key in settings.encryption.old_master_keys]
    assert old == [KEY, OTHER]
    assert settings.fetch.proxy == "http://anna:hush@127.0.0.1:3128"
    assert "hush" not in repr(settings)


def test_a_relative_path_starts_from_the_working_directory(tmp_path, secret):
    secret(URL, "url")
    assert load(tmp_path, environ={"APP__DATABASE_URL_FILE": "url"}).database_url == URL


def test_later_layers_override_earlier_ones_whether_value_or_file(tmp_path, secret):
    text = f"app: {{database-url-file: {secret(URL)}}}"
    other = "sqlite:///other.db"
    assert load(tmp_path, text, {"APP__DATABASE_URL": other}).database_url == other
    assert load(tmp_path, text, options={"app.database-url": other}).database_url == other
    value = f"app: {{database-url: {other}}}"
    assert load(tmp_path, value, {"APP__DATABASE_URL_FILE": secret(URL)}).database_url == URL


def test_an_empty_variable_or_null_names_no_file(tmp_path):
    text = "app: {encryption: {master-key-file: null}}"
    settings = load(tmp_path, text, {"APP__DATABASE_URL_FILE": ""})
    assert settings.origins["app.database-url"] == "default"
    assert settings.encryption.master_key is None


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (f"{HEX}\n{HEX}\n", "must contain one line"),
        ("a" * 65_537, "has more than 65,536 bytes"),
    ],
)
def test_u6_an_error_names_the_key_and_the_file_but_not_the_content(
    tmp_path, secret, content, reported
):
    file = secret(content)
    name = "APP__ENCRYPTION__MASTER_KEY_FILE"
    line = problem(tmp_path, environ={name: file})
    assert line == f"app.encryption.master-key-file: {file} {reported} ({name})"


@pytest.mark.parametrize(
    ("value", "reported"),
    [
        ("postgresql://user:hush@host/db", "does not exist"),
        ("hush" * 1000, "cannot be read: File name too long"),
    ],
)
def test_u6_a_secret_instead_of_the_path_of_its_file_is_not_shown(tmp_path, value, reported):
    line = problem(tmp_path, environ={"APP__DATABASE_URL_FILE": value})
    assert line == f"app.database-url-file: the file {reported} (APP__DATABASE_URL_FILE)"


def test_a_folder_is_not_a_file(tmp_path):
    line = problem(tmp_path, f"app: {{database-url-file: {tmp_path}}}")
    assert "cannot be read: Is a directory" in line


@pytest.mark.parametrize("value", ["7", "[a]", "{a: b}", "''"])
def test_a_path_is_text(tmp_path, value):
    line = problem(tmp_path, f"app: {{database-url-file: {value}}}")
    assert line.startswith("app.database-url-file: must be the path of a file")


def test_u6_an_invalid_secret_in_a_file_is_not_shown(tmp_path, secret):
    line = problem(tmp_path, environ={"APP__ENCRYPTION__MASTER_KEY_FILE": secret("hush")})
    assert line.startswith("app.encryption.master-key: ")
    assert f"(file {tmp_path}/secret)" in line
    assert "hush" not in line


@pytest.mark.parametrize("path", sorted(SECRET_KEYS))
def test_u6_a_secret_given_as_a_value_and_as_a_file_is_an_error(tmp_path, secret, path):
    values = {variable(path): "hush", f"{variable(path)}_FILE": secret("hush")}
    line = problem(tmp_path, environ=values)
    assert line == (
        f"{dotted(path)}: given twice, as a value and as a file ({variable(path)}_FILE)"
    )


def test_u6_the_configuration_file_gives_a_secret_once(tmp_path, secret):
    text = f"app: {{database-url: {URL}, database-url-file: {secret(URL)}}}"
    line = problem(tmp_path, text)
    assert line == "app.database-url: given twice, as a value and as a file (headwater.yaml)"


def test_other_settings_have_no_file_key(tmp_path):
    assert "unknown variable" in problem(tmp_path, environ={"APP__LOG__LEVEL_FILE": "x"})
    assert "unknown key" in problem(tmp_path, "app: {log: {level-file: x}}")


def test_u6_systemd_credentials_are_secrets_by_their_key(tmp_path):
    folder = tmp_path / "credentials"
    folder.mkdir()
    (folder / "app.database-url").write_text(URL)
    (folder / "app.encryption.master-key").write_text(HEX)
    (folder / "other-service").write_text("not ours")
    environ = {"CREDENTIALS_DIRECTORY": str(folder)}
    settings = load(tmp_path, "app: {database-url: sqlite:///x.db}", environ)
    assert settings.database_url == URL
    assert settings.origins["app.database-url"] == "systemd credential"
    assert settings.encryption.master_key.get_secret_value() == KEY
    given = environ | {"APP__DATABASE_URL": "sqlite:///y.db"}
    assert load(tmp_path, environ=given).database_url == "sqlite:///y.db"


def test_an_unknown_or_empty_credential_is_an_error(tmp_path):
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    (tmp_path / "app.database-url").touch()
    assert "app.database-url is empty (systemd credential)" in problem(tmp_path, environ=environ)
    (tmp_path / "app.database-url").rename(tmp_path / "app.database-urls")
    line = problem(tmp_path, environ=environ)
    assert line.startswith("systemd credential app.database-urls: no secret; did you mean")
