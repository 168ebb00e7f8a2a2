"""Seals users' API keys with AES-256-GCM under a key that lives outside the database (U5)."""

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Sequence
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


class Vault:
    """Seals with the first of its master keys and opens with whichever one sealed."""

    def __init__(self, master_keys: Sequence[bytes]) -> None:
        if not master_keys or any(len(key) != KEY_BYTES for key in master_keys):
            raise ConfigError(f"a master key must be {KEY_BYTES} bytes", field=_KEY_FIELD)
        self._ciphers = {key_id(key): AESGCM(_derived(key, b"seal")) for key in master_keys}
        self._current = key_id(master_keys[0])

    @property
    def current_key_id(self) -> str:
        """The id of the key that seals; a secret with another one waits for rotation."""
        return self._current

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
        cipher = self._ciphers.get(sealed.key_id)
        if cipher is None:
            raise SecretError(
                f"{whose} was sealed with master key {sealed.key_id!r}, which is not in use;"
                f" bring that master key back or store the user's key again"
            )
        try:
            bound_to = _bound_to(sealed.key_id, user_id, provider)
            return cipher.decrypt(sealed.nonce, sealed.ciphertext, bound_to).decode()
        except (InvalidTag, ValueError) as error:
            raise SecretError(f"{whose} was changed in the database; store it again") from error


def key_id(master_key: bytes) -> str:
    """A name for a master key that tells nothing about it, the same on every machine."""
    return _derived(master_key, b"id")[:_KEY_ID_BYTES].hex()


def load_or_create_master_key(path: Path) -> bytes:
    """The master key kept in a file of mode 0600, made once, however many processes ask."""
    try:
        with contextlib.suppress(FileNotFoundError):
            return _read_key(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        _create_key(path)
        return _read_key(path)  # another process may have been first: its key counts
    except OSError as error:
        problem = f"the master key file {path} cannot be used: {error.strerror}"
        raise ConfigError(problem, field=_KEY_FIELD) from error


def _read_key(path: Path) -> bytes:
    with path.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        text = file.read(1024).strip()
    # refused, not repaired: whoever could read the key may have a copy, and somebody should know
    if os.name == "posix" and mode & 0o077:
        problem = f"the master key file {path} is open to others (mode {mode:04o})"
        raise ConfigError(f"{problem}; run: chmod 600 {path}", field=_KEY_FIELD)
    if not _KEY_TEXT.fullmatch(text):
        raise ConfigError(
            f"the master key file {path} does not hold 64 hexadecimal digits; bring back a copy"
            f" of it, or delete it and store all users' keys again",
            field=_KEY_FIELD,
        )
    return bytes.fromhex(text.decode("ascii"))


def _create_key(path: Path) -> None:
    """Put a whole new key in place, or nothing; a key that is there already stays."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    _write_key(draft)
    try:
        os.link(draft, path)  # unlike a rename, never replaces the key of a faster process
    except FileExistsError:
        pass
    except OSError:  # a file system without links: only a crash right here leaves half a key
        with contextlib.suppress(FileExistsError):
            _write_key(path)
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _write_key(path: Path) -> None:
    """Write a new key to a new file and to the disk; a file that cannot be finished goes."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES).hex().encode("ascii") + b"\n")
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
