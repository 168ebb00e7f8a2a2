"""Encrypts users' API keys with AES-256-GCM; master keys are stored outside the database (U5)."""

import contextlib
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from headwater.errors import ConfigError, SecretError, UsageError
from headwater.model import SealedSecret

KEY_BYTES = 32
NONCE_BYTES = 12
_KEY_ID_BYTES = 8
_KEY_FIELD = "app.encryption.master-key"
_KEY_TEXT = re.compile(rb"[0-9a-fA-F]{64}")
_LONGEST_FILE = 65_536


class Vault:
    """Encrypts with the first of its master keys, and decrypts with any of them."""

    def __init__(
        self, master_keys: Sequence[bytes], *, reread: Callable[[], Sequence[bytes]] | None = None
    ) -> None:
        self._ciphers: dict[str, AESGCM] = {}
        self._reread = reread
        self._take(master_keys)

    @property
    def current_key_id(self) -> str:
        """The id of the key that encrypts; secrets with other ids are to be rotated."""
        return self._current

    @property
    def key_ids(self) -> Collection[str]:
        """The ids of all keys that this vault can decrypt with."""
        return self._ciphers.keys()

    def reread(self) -> None:
        """Read the master keys again: another process may have rotated them.

        Known keys are kept: a secret that was read before the rotation may need one.
        """
        if self._reread is not None and (found := self._reread()):
            self._take(found)

    def seal(self, secret: str, *, user_id: str, provider: str) -> SealedSecret:
        """Encrypt a secret for one user and provider, with a fresh nonce each time."""
        try:
            text = secret.encode()
        except UnicodeEncodeError as error:
            raise UsageError("the key is not valid text") from error
        nonce = os.urandom(NONCE_BYTES)
        bound_to = _bound_to(self._current, user_id, provider)
        ciphertext = self._ciphers[self._current].encrypt(nonce, text, bound_to)
        return SealedSecret(self._current, nonce, ciphertext)

    def open(self, sealed: SealedSecret, *, user_id: str, provider: str) -> str:
        """Decrypt a secret, or raise a SecretError with the reason."""
        whose = f"the {provider!r} key of user {user_id!r}"
        if sealed.key_id not in self._ciphers:
            try:
                self.reread()  # another process may have rotated the keys
            except ConfigError as error:
                raise SecretError(f"{whose} needs another master key: {error}") from error
        if (cipher := self._ciphers.get(sealed.key_id)) is None:
            raise SecretError(
                f"{whose} was sealed with master key {sealed.key_id!r}, which is not available;"
                f" restore that master key or store the user's key again"
            )
        try:
            bound_to = _bound_to(sealed.key_id, user_id, provider)
            return cipher.decrypt(sealed.nonce, sealed.ciphertext, bound_to).decode()
        except (InvalidTag, ValueError) as error:
            raise SecretError(f"{whose} was changed in the database; store it again") from error

    def _take(self, master_keys: Sequence[bytes]) -> None:
        if not master_keys or any(len(key) != KEY_BYTES for key in master_keys):
            raise ConfigError(f"a master key must be {KEY_BYTES} bytes", field=_KEY_FIELD)
        self._ciphers |= {key_id(key): AESGCM(_derived(key, b"seal")) for key in master_keys}
        self._current = key_id(master_keys[0])


@dataclass(frozen=True, slots=True)
class MasterKeys:
    """The master keys: a configured one, if any, and those of a file, the current one first."""

    file: Path
    given: bytes | None = field(default=None, repr=False)
    older: tuple[bytes, ...] = field(default=(), repr=False)  # configured too, only to decrypt

    def vault(self) -> Vault:
        """A vault with these keys; creates the file unless a key is configured."""
        if self.given is not None:  # keys in the file are older: read on demand
            return Vault((self.given, *self.older), reread=self.there)
        if not _stored_keys(self.file):
            with _usable(self.file):
                self.file.parent.mkdir(parents=True, exist_ok=True)
                _create_key(self.file)  # unless another process has created it first
        return Vault(self.there(), reread=self.there)

    def there(self) -> Sequence[bytes]:
        """All current keys, the encrypting one first; empty if that one is missing."""
        stored = _stored_keys(self.file)
        if self.given is None:
            return (*stored, *self.older) if stored else ()
        return (self.given, *stored, *self.older)

    @contextlib.contextmanager
    def being_rotated(self) -> Iterator[None]:
        """Hold the lock that prevents other rotations."""
        with _usable(self.file):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            folder = os.open(self.file.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError("another rotation of the master key is running") from None
            yield
        finally:
            os.close(folder)

    def renew(self) -> bool:
        """Write a new key before the others in the file; False if the new key exists already.

        It does if a key is configured, or if a rotation was interrupted.
        """
        if self.given is not None:
            return False
        stored = _stored_keys(self.file)
        if len(stored) > 1:
            return False
        with _usable(self.file):
            _replace_file(self.file, (secrets.token_bytes(KEY_BYTES), *stored))
        return True

    def forget(self, *, all_but: Collection[str]) -> int:
        """Delete keys from the file except those with these ids; return the number deleted."""
        stored = _stored_keys(self.file)
        kept = [key for key in stored if key_id(key) in all_but]
        with _usable(self.file):
            if len(kept) < len(stored):
                _replace_file(self.file, kept)
            for draft in self.file.parent.glob(f".{self.file.name}.*"):
                draft.unlink(missing_ok=True)  # left by a killed process: it contains keys too
        return len(stored) - len(kept)


def key_id(master_key: bytes) -> str:
    """The id of a master key: derived from it, but reveals nothing about it."""
    return _derived(master_key, b"id")[:_KEY_ID_BYTES].hex()


def _stored_keys(path: Path) -> Sequence[bytes]:
    """The keys in a file, the current one first; empty if there is no file."""
    with _usable(path):
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return ()
        with file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(_LONGEST_FILE)
    # refused, not repaired: others may have copied the key, and the operator should know
    if os.name == "posix" and mode & 0o077:
        problem = f"the master key file {path} can be read by others (mode {mode:04o})"
        raise ConfigError(f"{problem}; run: chmod 600 {path}", field=_KEY_FIELD)
    lines = text.split()
    if not lines or not all(_KEY_TEXT.fullmatch(line) for line in lines):
        raise ConfigError(
            f"the master key file {path} does not have 64 hexadecimal digits per line; restore a"
            f" copy of it, or delete it and store all users' keys again",
            field=_KEY_FIELD,
        )
    return tuple(bytes.fromhex(line.decode("ascii")) for line in lines)


@contextlib.contextmanager
def _usable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = f"the master key file {path} cannot be used: {error.strerror}"
        raise ConfigError(problem, field=_KEY_FIELD) from error


def _replace_file(path: Path, master_keys: Sequence[bytes]) -> None:
    """Replace the keys in a file atomically; without keys, delete the file."""
    if master_keys:
        _publish(path, master_keys, lambda draft: draft.replace(path))
    else:
        path.unlink()
        sync_folder(path.parent)


def _create_key(path: Path) -> None:
    """Create the file with a new key atomically; an existing file stays."""
    new = (secrets.token_bytes(KEY_BYTES),)

    def link(draft: Path) -> None:
        try:
            os.link(draft, path)  # unlike a rename, never replaces another process's key
        except FileExistsError:
            pass
        except OSError:  # no hard links: a crash during this write leaves an incomplete file
            with contextlib.suppress(FileExistsError):
                write_keys(path, new)

    _publish(path, new, link)


def _publish(path: Path, keys: Sequence[bytes], publish: Callable[[Path], object]) -> None:
    draft = draft_of(path)
    write_keys(draft, keys)
    try:
        publish(draft)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def draft_of(path: Path) -> Path:
    """The path of a new temporary file beside a key file."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")


def write_keys(path: Path, master_keys: Sequence[bytes]) -> None:
    """Write keys to a new file and sync it; delete it on failure."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.writelines(key.hex().encode("ascii") + b"\n" for key in master_keys)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Write the entries of a folder to disk."""
    if os.name != "posix":  # other systems cannot open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _derived(master_key: bytes, purpose: bytes) -> bytes:
    """A key for one purpose, so that the id reveals nothing about the encryption key."""
    expand = HKDFExpand(algorithm=SHA256(), length=KEY_BYTES, info=b"headwater/1/" + purpose)
    return expand.derive(master_key)


def _bound_to(sealing_key_id: str, user_id: str, provider: str) -> bytes:
    """Associated data of a secret; with lengths, so that two owners never have the same."""
    parts = (sealing_key_id.encode(), user_id.encode(), provider.encode())
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
