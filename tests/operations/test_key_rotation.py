"""Rotating the master key of every stored secret: concurrently, and killed in between (U5)."""

import asyncio
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.clock import SystemClock
from headwater.errors import KeyRetired, SecretError, UsageError
from headwater.model import SealedSecret, User
from headwater.operations.key_rotation import rotate_master_key
from headwater.operations.users_and_podcasts import key_of, set_key
from headwater.settings import effective, load_settings
from headwater.store import Session, Store, open_database
from headwater.store.backup_file import back_up, restore
from headwater.vault import MasterKeys, Vault, key_id
from tests.operations.killed_rotation import DATABASE, KEYS
from tests.store.store_data import NOW

GIVEN, GIVEN_BEFORE = bytes(range(32)), bytes(range(32, 64))
DEFAULT = User("default", "default", NOW)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / DATABASE}"
    new_database: Callable[[], str] = request.getfixturevalue("postgres_url")
    return new_database()


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with Store(open_database(url), SystemClock()) as store:
        await store.prepare()
        yield store


@pytest.fixture
def keys(tmp_path: Path) -> MasterKeys:
    return MasterKeys(tmp_path / KEYS)


async def store_secrets(store: Store, vault: Vault, count: int) -> dict[str, str]:
    """Users with a key each; returns the keys by user."""
    secrets = {f"user-{number:03}": f"key-{number}" for number in range(count)}
    for name, secret in secrets.items():
        await store.accounts.add_user(User(name, name, NOW))
        await set_key(store, vault, User(name, name, NOW), "x", secret, NOW)
    return secrets


async def opened(store: Store, vault: Vault, users: Sequence[str]) -> dict[str, str | None]:
    return {user: await key_of(store, lambda: vault, user, "x") for user in users}


def lines(keys: MasterKeys) -> list[str]:
    assert stat.S_IMODE(keys.file.stat().st_mode) == 0o600
    return keys.file.read_text().splitlines()


async def test_u5_every_secret_gets_the_new_key_and_the_old_one_is_deleted(
    store: Store, keys: MasterKeys
):
    secrets = await store_secrets(store, keys.vault(), 205)  # more than fit one transaction
    before = lines(keys)

    done = await rotate_master_key(store, keys)

    assert (done.is_new, done.resealed, done.forgotten, done.unread) == (True, 205, 1, [])
    assert len(lines(keys)) == 1
    assert lines(keys) != before
    assert await store.api_keys.key_ids() == {done.key_id}
    assert await opened(store, keys.vault(), list(secrets)) == secrets
    with pytest.raises(SecretError, match="not available"):
        await opened(store, Vault([bytes.fromhex(before[0])]), ["user-000"])


async def test_u5_a_second_rotation_makes_a_third_key(store: Store, keys: MasterKeys):
    secrets = await store_secrets(store, keys.vault(), 2)
    ids = {(await rotate_master_key(store, keys)).key_id for _ in range(3)}
    assert len(ids) == 3
    assert await opened(store, keys.vault(), list(secrets)) == secrets


async def test_u5_a_running_process_decrypts_and_encrypts_with_the_new_key(
    store: Store, keys: MasterKeys
):
    running = keys.vault()
    secrets = await store_secrets(store, running, 3)
    done = await rotate_master_key(store, keys)

    assert await opened(store, running, list(secrets)) == secrets
    await set_key(store, running, DEFAULT, "x", "later", NOW)
    assert await store.api_keys.key_ids() == {done.key_id}
    assert await opened(store, keys.vault(), ["default"]) == {"default": "later"}


async def test_u5_a_process_that_only_encrypts_learns_of_the_new_key(
    store: Store, keys: MasterKeys
):
    running = keys.vault()
    done = await rotate_master_key(store, keys)
    await set_key(store, running, DEFAULT, "x", "later", NOW)
    assert await store.api_keys.key_ids() == {done.key_id}


async def test_u5_no_secret_encrypted_with_an_outgoing_key_is_stored(
    store: Store, keys: MasterKeys
):
    keys.vault()
    old = Vault(keys.there())  # like a process that cannot read the file
    await rotate_master_key(store, keys)
    sealed = old.seal("late", user_id="default", provider="x")
    with pytest.raises(KeyRetired, match="rotated out"):
        await store.api_keys.set("default", "x", sealed, NOW)
    assert await store.api_keys.get("default", "x") is None
    with pytest.raises(KeyRetired):  # it has no other key, and raises instead of losing a secret
        await set_key(store, old, DEFAULT, "x", "late", NOW)


async def test_u5_a_rotation_waits_for_a_secret_that_is_being_stored(
    store: Store, keys: MasterKeys, url: str
):
    old = keys.vault()
    inserted, go_on = threading.Event(), threading.Event()
    sql = """INSERT INTO api_keys (user_id, provider, key_id, nonce, ciphertext, created_at)
        VALUES ('default', 'x', :key, :nonce, :text, 0)"""
    sealed = old.seal("slow", user_id="default", provider="x")

    def slowly(session: Session) -> None:
        params = {"key": sealed.key_id, "nonce": sealed.nonce, "text": sealed.ciphertext}
        session.execute(sql, params)
        inserted.set()
        assert go_on.wait(30)

    async with Store(open_database(url), SystemClock()) as other:
        storing = asyncio.create_task(other.database.write(slowly))
        await asyncio.to_thread(inserted.wait)
        rotating = asyncio.create_task(rotate_master_key(store, keys))
        assert not (await asyncio.wait([rotating], timeout=0.3))[0]
        go_on.set()
        await storing
        done = await rotating

    assert done.resealed == 1
    assert await opened(store, keys.vault(), ["default"]) == {"default": "slow"}


async def test_u5_a_secret_changed_during_its_rotation_keeps_the_change(
    store: Store, keys: MasterKeys
):
    vault = keys.vault()
    await set_key(store, vault, DEFAULT, "x", "first", NOW)
    (before,) = await store.api_keys.not_sealed_with("another", limit=5)
    await set_key(store, vault, DEFAULT, "x", "second", NOW)
    moved = vault.seal("first", user_id="default", provider="x")
    assert await store.api_keys.reseal([(before, moved)]) == 0
    assert await opened(store, vault, ["default"]) == {"default": "second"}


async def test_u5_an_unreadable_secret_keeps_its_key_and_blocks_no_other(
    store: Store, keys: MasterKeys
):
    secrets = await store_secrets(store, keys.vault(), 5)
    sealed = await store.api_keys.get("user-002", "x")
    assert sealed is not None
    await store.api_keys.set("user-002", "x", replace(sealed, ciphertext=b"tampered"), NOW)
    lost = SealedSecret("0123456789abcdef", sealed.nonce, sealed.ciphertext)
    await store.api_keys.set("user-003", "x", lost, NOW)

    done = await rotate_master_key(store, keys)

    assert done.resealed == 3
    assert len(done.unread) == 2
    assert "'x' key of user 'user-002' was changed" in done.unread[0]
    assert "'x' key of user 'user-003' was sealed with master key '0123" in done.unread[1]
    assert len(lines(keys)) == 2
    good = [user for user in secrets if user not in ("user-002", "user-003")]
    assert await opened(store, keys.vault(), good) == {user: secrets[user] for user in good}
    with pytest.raises(SecretError, match="user-002"):
        await opened(store, keys.vault(), ["user-002"])

    for user in ("user-002", "user-003"):
        await set_key(store, keys.vault(), User(user, user, NOW), "x", "again", NOW)
    again = await rotate_master_key(store, keys)
    assert (again.key_id, again.is_new, again.forgotten) == (done.key_id, False, 1)
    assert len(lines(keys)) == 1


async def test_u5_a_configured_key_replaces_the_file_and_older_configured_keys(
    store: Store, keys: MasterKeys
):
    secrets = await store_secrets(store, keys.vault(), 2)
    await set_key(store, Vault([GIVEN_BEFORE]), DEFAULT, "x", "third", NOW)
    secrets["default"] = "third"
    given = replace(keys, given=GIVEN, older=(GIVEN_BEFORE,))
    assert await opened(store, given.vault(), list(secrets)) == secrets  # before, too

    done = await rotate_master_key(store, given)

    assert (done.key_id, done.is_new, done.resealed) == (key_id(GIVEN), False, 3)
    assert not keys.file.exists()
    assert await opened(store, Vault([GIVEN]), list(secrets)) == secrets
    again = await rotate_master_key(store, given)
    assert (again.resealed, again.forgotten, again.unread) == (0, 0, [])


async def test_u5_a_key_that_is_configured_and_in_the_file_stays_in_the_file(
    store: Store, keys: MasterKeys
):
    await set_key(store, keys.vault(), DEFAULT, "x", "secret", NOW)
    (same,) = keys.there()
    done = await rotate_master_key(store, replace(keys, given=same))
    assert (done.resealed, done.forgotten) == (0, 0)
    assert len(lines(keys)) == 1


async def test_u5_a_rotation_from_a_configured_key_back_to_the_file(store: Store, keys: MasterKeys):
    await set_key(store, Vault([GIVEN]), DEFAULT, "x", "secret", NOW)
    back = replace(keys, older=(GIVEN,))
    assert (await rotate_master_key(store, back)).resealed == 1
    assert await opened(store, keys.vault(), ["default"]) == {"default": "secret"}


async def test_u5_one_rotation_at_a_time(store: Store, keys: MasterKeys):
    with keys.being_rotated(), pytest.raises(UsageError, match="is running"):
        await rotate_master_key(store, keys)
    assert (await rotate_master_key(store, keys)).is_new


async def test_u5_a_backup_neither_restores_old_keys_nor_is_blocked_by_them(
    store: Store, keys: MasterKeys, tmp_path: Path
):
    await set_key(store, keys.vault(), DEFAULT, "x", "secret", NOW)
    old = Vault(keys.there())
    await back_up(store.database, tmp_path / "copy.db")
    await rotate_master_key(store, keys)
    await restore(store.database, tmp_path / "copy.db")

    with pytest.raises(SecretError, match="not available"):
        await opened(store, keys.vault(), ["default"])
    await set_key(store, keys.vault(), DEFAULT, "x", "again", NOW)
    with pytest.raises(KeyRetired):
        await set_key(store, old, DEFAULT, "x", "late", NOW)


async def test_u5_a_process_killed_at_any_step_loses_no_secret(
    tmp_path: Path,
):
    first = tmp_path / "first"
    first.mkdir()
    async with Store(open_database(f"sqlite:///{first / DATABASE}"), SystemClock()) as store:
        await store.prepare()
        secrets = await store_secrets(store, MasterKeys(first / KEYS).vault(), 101)
    folders = [tmp_path / str(number) for number in range(26)]
    for folder in folders:
        shutil.copytree(first, folder)

    reported = subprocess.run(
        [sys.executable, "-m", "tests.operations.killed_rotation", *map(str, folders)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert reported.stderr == ""
    ended = reported.stdout.split()
    assert 0 < len(ended) < len(folders) - 10  # it was killed at many different steps
    assert ended == [str(folder) for folder in folders[-len(ended) :]]
    new_keys = []
    for folder in folders:
        keys = MasterKeys(folder / KEYS)
        async with Store(open_database(f"sqlite:///{folder / DATABASE}"), SystemClock()) as store:
            assert await opened(store, keys.vault(), list(secrets)) == secrets
            whole = len(keys.there()) == 1
            done = await rotate_master_key(store, keys)
            new_keys.append((done.is_new, whole))
            assert await opened(store, keys.vault(), list(secrets)) == secrets
            assert await store.api_keys.key_ids() == {done.key_id}
        assert len(lines(keys)) == 1
        assert sorted(file.name for file in folder.iterdir() if "key" in file.name) == [KEYS]
    assert (False, False) in new_keys  # a started rotation is finished, not restarted
    assert all(is_new == whole for is_new, whole in new_keys)


def test_u5_old_master_keys_are_settings_that_are_never_shown(tmp_path: Path):
    text = GIVEN_BEFORE.hex()
    options = {"app.encryption.old-master-keys": [text]}
    settings = load_settings(options=options, environ={}, cwd=tmp_path)
    assert [key.get_secret_value() for key in settings.encryption.old_master_keys] == [GIVEN_BEFORE]
    shown = {row.key: row.value for row in effective(settings)}
    assert shown["app.encryption.old-master-keys"] == ["***"]
    for wrong in ([text[:-1]], [text, 7]):
        with pytest.raises(UsageError, match="must be 32 bytes") as caught:
            load_settings(
                options={"app.encryption.old-master-keys": wrong}, environ={}, cwd=tmp_path
            )
        assert text[:20] not in str(caught.value)
