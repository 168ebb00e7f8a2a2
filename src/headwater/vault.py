"""Seals users' API keys with AES-256-GCM under keys that live outside the database (U5)."""

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
    """Seals with the first of its master keys and opens with whichever one sealed."""

    def __init__(
        self, master_keys: Sequence[bytes], *, reread: Callable[[], Sequence[bytes]] | None = None
    ) -> None:
        self._ciphers: dict[str, AESGCM] = {}
        self._reread = reread
        self._take(master_keys)

    @property
    def current_key_id(self) -> str:
        """The id of the key that seals; a secret with another one waits for rotation."""
        return self._current

    @property
    def key_ids(self) -> Collection[str]:
        """The ids of all keys that this vault opens with."""
        return self._ciphers.keys()

    def reread(self) -> None:
        """Look which master keys there are now: another process may have made a new one.

        Keys known so far still open: a secret that was read a moment ago may need one of them.
        """
        if self._reread is not None and (found := self._reread()):
            self._take(found)

    def seal(self, secret: str, *, user_id: str, provider: str) -> SealedSecret:
        """Encrypt a secret for one user and provider, with a fresh nonce each time."""
        try:
            text = secret.encode()
        except UnicodeEncodeError as error:
            raise UsageError("the key has characters that no text can have") from error
        nonce = os.urandom(NONCE_BYTES)
        bound_to = _bound_to(self._current, user_id, provider)
        ciphertext = self._ciphers[self._current].encrypt(nonce, text, bound_to)
        return SealedSecret(self._current, nonce, ciphertext)

    def open(self, sealed: SealedSecret, *, user_id: str, provider: str) -> str:
        """Decrypt a secret, or say in one line why this one cannot be read."""
        whose = f"the {provider!r} key of user {user_id!r}"
        cipher = self._cipher(sealed.key_id, whose)
        try:
            bound_to = _bound_to(sealed.key_id, user_id, provider)
            return cipher.decrypt(sealed.nonce, sealed.ciphertext, bound_to).decode()
        except (InvalidTag, ValueError) as error:
            raise SecretError(f"{whose} was changed in the database; store it again") from error

    def _cipher(self, sealing_key_id: str, whose: str) -> AESGCM:
        if sealing_key_id not in self._ciphers:
            try:
                self.reread()  # a rotation may have brought a new key while we run
            except ConfigError as error:
                raise SecretError(f"{whose} needs another master key: {error}") from error
        try:
            return self._ciphers[sealing_key_id]
        except KeyError:
            raise SecretError(
                f"{whose} was sealed with master key {sealing_key_id!r}, which is not in use;"
                f" bring that master key back or store the user's key again"
            ) from None

    def _take(self, master_keys: Sequence[bytes]) -> None:
        if not master_keys or any(len(key) != KEY_BYTES for key in master_keys):
            raise ConfigError(f"a master key must be {KEY_BYTES} bytes", field=_KEY_FIELD)
        self._ciphers |= {key_id(key): AESGCM(_derived(key, b"seal")) for key in master_keys}
        self._current = key_id(master_keys[0])


@dataclass(frozen=True, slots=True)
class MasterKeys:
    """Where the master keys are: one may be given, others lie in a file, its current one first."""

    file: Path
    given: bytes | None = field(default=None, repr=False)
    older: tuple[bytes, ...] = field(default=(), repr=False)  # given too, to open with alone

    def vault(self) -> Vault:
        """A vault with these keys; the file is made if it holds the key that seals."""
        if self.given is not None:  # the file's keys are old ones: read when a secret needs one
            return Vault((self.given, *self.older), reread=self.there)
        return Vault((*load_or_create_master_keys(self.file), *self.older), reread=self.there)

    def there(self) -> Sequence[bytes]:
        """Every key that is there now, the one that seals first; none if that one is missing."""
        stored = _stored_keys(self.file)
        if self.given is None:
            return (*stored, *self.older) if stored else ()
        return (self.given, *stored, *self.older)

    @contextlib.contextmanager
    def being_rotated(self) -> Iterator[None]:
        """Keep other processes from rotating these keys meanwhile."""
        with _usable(self.file):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            folder = os.open(self.file.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _lock(folder)
            yield
        finally:
            os.close(folder)

    def renew(self) -> bool:
        """Put a new key before the others in the file; False if the next one is there already.

        It is where a key is given, and where a rotation was begun and not finished.
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
        """Take keys out of the file, but for those with these ids; answer how many went."""
        stored = _stored_keys(self.file)
        kept = [key for key in stored if key_id(key) in all_but]
        with _usable(self.file):
            if len(kept) < len(stored):
                _replace_file(self.file, kept)
            for draft in self.file.parent.glob(f".{self.file.name}.*"):
                draft.unlink(missing_ok=True)  # of a process that was killed: it holds keys too
        return len(stored) - len(kept)


def key_id(master_key: bytes) -> str:
    """A name for a master key that tells nothing about it, the same on every machine."""
    return _derived(master_key, b"id")[:_KEY_ID_BYTES].hex()


def load_or_create_master_keys(path: Path) -> Sequence[bytes]:
    """The master keys kept in a file of mode 0600; the first is made once, whoever asks."""
    stored = _stored_keys(path)
    if stored:
        return stored
    with _usable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _create_key(path)
    return _stored_keys(path)  # another process may have been first: its key counts


def _stored_keys(path: Path) -> Sequence[bytes]:
    """The keys in a file, the current one first; none if there is no file."""
    with _usable(path):
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return ()
        with file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(_LONGEST_FILE)
    # refused, not repaired: whoever could read the key may have a copy, and somebody should know
    if os.name == "posix" and mode & 0o077:
        problem = f"the master key file {path} is open to others (mode {mode:04o})"
        raise ConfigError(f"{problem}; run: chmod 600 {path}", field=_KEY_FIELD)
    lines = text.split()
    if not lines or not all(_KEY_TEXT.fullmatch(line) for line in lines):
        raise ConfigError(
            f"the master key file {path} does not hold 64 hexadecimal digits a line; bring back a"
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


def _lock(folder: int) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError("another rotation of the master key is under way") from None


def _replace_file(path: Path, master_keys: Sequence[bytes]) -> None:
    """Put other keys in the place of those in a file, whole or not at all; no keys, no file."""
    if not master_keys:
        path.unlink()
    else:
        draft = _draft_of(path)
        _write_keys(draft, master_keys)
        try:
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    _sync_folder(path.parent)


def _create_key(path: Path) -> None:
    """Put a whole new key in place, or nothing; a key that is there already stays."""
    draft = _draft_of(path)
    new = (secrets.token_bytes(KEY_BYTES),)
    _write_keys(draft, new)
    try:
        os.link(draft, path)  # unlike a rename, never replaces the key of a faster process
    except FileExistsError:
        pass
    except OSError:  # a file system without links: only a crash right here leaves half a key
        with contextlib.suppress(FileExistsError):
            _write_keys(path, new)
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _draft_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")


def _write_keys(path: Path, master_keys: Sequence[bytes]) -> None:
    """Write keys to a new file and to the disk; a file that cannot be finished goes."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.writelines(key.hex().encode("ascii") + b"\n" for key in master_keys)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # other systems cannot open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _derived(master_key: bytes, purpose: bytes) -> bytes:
    """A key for one purpose, so that the id gives nothing away about the cipher's key."""
    expand = HKDFExpand(algorithm=SHA256(), length=KEY_BYTES, info=b"headwater/1/" + purpose)
    return expand.derive(master_key)


def _bound_to(sealing_key_id: str, user_id: str, provider: str) -> bytes:
    """What a secret belongs to, with lengths so that no two owners can be confused."""
    parts = (sealing_key_id.encode(), user_id.encode(), provider.encode())
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
