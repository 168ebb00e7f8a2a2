"""Encryption of users' API keys, and the master key file."""

import multiprocessing
import os
import stat
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import ConfigError, SecretError, UsageError
from headwater.vault import MasterKeys, Vault, key_id

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
TOKEN = "AAAA-bearer-token"


def load_or_create_master_key(path):
    keys = MasterKeys(path)
    keys.vault()
    (key,) = keys.there()
    return key


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text("ab\0:"), st.text("xy\0:"))
def test_u5_an_encrypted_secret_can_be_decrypted(secret, user_id, provider):
    vault = Vault([OLD])
    sealed = vault.seal(secret, user_id=user_id, provider=provider)
    assert vault.open(sealed, user_id=user_id, provider=provider) == secret


def test_u5_every_encryption_has_a_new_nonce_and_hides_the_secret():
    vault = Vault([OLD])
    sealed = [vault.seal(TOKEN, user_id="u", provider="x") for _ in range(100)]
    assert len({one.nonce for one in sealed}) == 100
    assert len({one.ciphertext for one in sealed}) == 100
    assert not any(TOKEN.encode() in one.ciphertext for one in sealed)
    assert {one.key_id for one in sealed} == {key_id(OLD)} == {vault.current_key_id}


@pytest.mark.parametrize(
    ("user_id", "provider"), [("v", "x"), ("u", "y"), ("", "ux"), ("ux", ""), ("x", "u")]
)
def test_u5_a_secret_is_bound_to_its_user_and_provider(user_id, provider):
    vault = Vault([OLD])
    sealed = vault.seal(TOKEN, user_id="u", provider="x")
    with pytest.raises(SecretError, match="store it again"):
        vault.open(sealed, user_id=user_id, provider=provider)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: replace(s, ciphertext=bytes([s.ciphertext[0] ^ 1]) + s.ciphertext[1:]),
        lambda s: replace(s, ciphertext=s.ciphertext[:-1]),
        lambda s: replace(s, ciphertext=b""),
        lambda s: replace(s, nonce=bytes(12)),
        lambda s: replace(s, nonce=b""),
        lambda s: replace(s, nonce=bytes(500)),
        lambda s: replace(s, key_id=key_id(NEW)),
    ],
)
def test_u5_tampering_is_a_one_line_error(change):
    vault = Vault([OLD, NEW])
    sealed = change(vault.seal(TOKEN, user_id="u", provider="x"))
    with pytest.raises(SecretError) as caught:
        vault.open(sealed, user_id="u", provider="x")
    assert "\n" not in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_u5_a_wrong_master_key_names_the_right_one():
    sealed = Vault([OLD]).seal(TOKEN, user_id="u", provider="x")
    with pytest.raises(SecretError, match=f"master key '{key_id(OLD)}', which is not available"):
        Vault([NEW]).open(sealed, user_id="u", provider="x")


def test_u5_during_a_rotation_old_secrets_open_and_new_ones_use_the_new_key():
    old = Vault([OLD]).seal(TOKEN, user_id="u", provider="x")
    both = Vault([NEW, OLD])
    assert both.open(old, user_id="u", provider="x") == TOKEN
    moved = both.seal(TOKEN, user_id="u", provider="x")
    assert (old.key_id, moved.key_id) == (key_id(OLD), both.current_key_id)
    assert Vault([NEW]).open(moved, user_id="u", provider="x") == TOKEN


def test_u5_the_id_of_a_key_reveals_nothing_of_it():
    assert key_id(OLD) != key_id(NEW)
    assert bytes.fromhex(key_id(OLD)) not in OLD
    assert OLD.hex() not in repr(vars(Vault([OLD])))


@pytest.mark.parametrize("keys", [[], [b""], [bytes(31)], [OLD, bytes(33)]])
def test_u5_a_master_key_has_32_bytes(keys):
    with pytest.raises(ConfigError, match="must be 32 bytes"):
        Vault(keys)


def test_u5_a_secret_that_is_no_text_is_refused():
    with pytest.raises(UsageError):
        Vault([OLD]).seal("\ud800", user_id="u", provider="x")


def test_u5_the_key_file_is_created_once_with_mode_0600(tmp_path):
    path = tmp_path / "data" / "headwater.key"
    first = load_or_create_master_key(path)
    assert len(first) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_or_create_master_key(path) == first
    assert [entry.name for entry in path.parent.iterdir()] == ["headwater.key"]


def test_u5_two_files_hold_two_keys(tmp_path):
    assert load_or_create_master_key(tmp_path / "a") != load_or_create_master_key(tmp_path / "b")


def test_u5_processes_that_race_get_the_same_key(tmp_path):
    context = multiprocessing.get_context("spawn")
    with context.Pool(4) as pool:
        for number in range(10):
            paths = [tmp_path / f"{number}.key"] * 8
            assert len(set(pool.map(load_or_create_master_key, paths, chunksize=1))) == 1
    assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith(".")]


@pytest.mark.parametrize("step", ["link", "fsync", "write"])
def test_u5_a_crash_while_writing_leaves_no_partial_key(tmp_path, monkeypatch, step):
    path = tmp_path / "headwater.key"

    def crash(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if step == "write":
            patch.setattr("headwater.vault.secrets.token_bytes", crash)
        else:
            patch.setattr(f"headwater.vault.os.{step}", crash)
        with pytest.raises(KeyboardInterrupt):
            load_or_create_master_key(path)
    assert os.listdir(tmp_path) == []
    assert len(load_or_create_master_key(path)) == 32


def test_u5_a_file_system_without_hard_links_works(tmp_path, monkeypatch):
    def no_links(*args):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("headwater.vault.os.link", no_links)
    path = tmp_path / "headwater.key"
    key = load_or_create_master_key(path)
    assert load_or_create_master_key(path) == key
    assert [entry.name for entry in tmp_path.iterdir()] == ["headwater.key"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_u5_a_key_file_readable_by_others_is_refused_with_the_remedy(tmp_path, mode):
    path = tmp_path / "headwater.key"
    key = load_or_create_master_key(path)
    path.chmod(mode)
    with pytest.raises(ConfigError, match=f"mode {mode:04o}.*chmod 600"):
        load_or_create_master_key(path)
    path.chmod(0o600)
    assert load_or_create_master_key(path) == key


@pytest.mark.parametrize("text", ["", "abc", "0" * 63, "0" * 66, "x" * 64, "0" * 5000])
def test_u5_a_damaged_key_file_is_a_clear_error_and_stays(tmp_path, text):
    path = tmp_path / "headwater.key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="64 hexadecimal digits") as caught:
        load_or_create_master_key(path)
    assert "\n" not in str(caught.value)
    assert path.read_text() == text


def test_u5_a_location_that_cannot_hold_a_key_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be used"):
        load_or_create_master_key(tmp_path / "file" / "headwater.key")
    with pytest.raises(ConfigError, match="cannot be used"):
        load_or_create_master_key(tmp_path)
    assert os.listdir(tmp_path) == ["file"]


def test_u5_a_configured_key_works_even_if_the_file_of_older_keys_is_broken(tmp_path):
    path = tmp_path / "headwater.key"
    path.write_text("damaged")
    path.chmod(0o600)
    vault = MasterKeys(path, given=NEW, older=(OLD,)).vault()
    for key in (NEW, OLD):
        sealed = Vault([key]).seal(TOKEN, user_id="u", provider="x")
        assert vault.open(sealed, user_id="u", provider="x") == TOKEN
    other = Vault([bytes(32)]).seal(TOKEN, user_id="u", provider="x")
    with pytest.raises(SecretError, match=r"user 'u' needs another master key: .*64 hexa"):
        vault.open(other, user_id="u", provider="x")


def test_u5_a_deleted_key_file_is_not_recreated_by_reading(tmp_path):
    keys = MasterKeys(tmp_path / "headwater.key")
    vault = keys.vault()
    keys.file.unlink()
    other = Vault([OLD]).seal(TOKEN, user_id="u", provider="x")
    with pytest.raises(SecretError, match="not available"):
        vault.open(other, user_id="u", provider="x")
    assert not keys.file.exists()
    sealed = vault.seal(TOKEN, user_id="u", provider="x")
    assert vault.open(sealed, user_id="u", provider="x") == TOKEN


def test_u5_the_master_keys_are_never_printed(tmp_path):
    keys = MasterKeys(tmp_path / "headwater.key", given=NEW, older=(OLD,))
    assert repr(NEW) not in repr(keys)
    assert repr(OLD) not in repr(keys)
