"""The files of an SQLite database: writes to one that was deleted are lost (K5)."""

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

FileIdentity = tuple[int, int]  # device and inode
_WAL_ATTEMPTS = 5


def create_private(path: Path) -> None:
    """Create a new file for its owner only: source URLs may contain passwords (U6)."""
    with suppress(OSError):  # opening the file reports what is wrong
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def identity_of(file: Path | str | int) -> FileIdentity | None:
    """Device and inode of a path or descriptor; None if it cannot be found."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_replaced(path: Path | str, identity: FileIdentity) -> bool:
    """Whether a path leads to no file or to another one; False if that cannot be found out."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # such as EIO: SQLite reports it, and may recover
        return False
    return (found.st_dev, found.st_ino) != identity


def beside(path: Path, suffix: str) -> str:
    """A file beside the database file itself, also when the path is a symbolic link."""
    return f"{os.path.realpath(path)}{suffix}"


def log_files(path: Path) -> Mapping[str, FileIdentity]:
    """The write-ahead log and its index by path, as far as they exist.

    SQLite creates them with the first connection to a database and deletes them with the last one
    of all processes. Between these moments it neither deletes nor replaces them.
    """
    paths = (beside(path, "-wal"), beside(path, "-shm"))
    return {one: identity for one in paths if (identity := identity_of(one)) is not None}


def changed_files(
    opened: Iterable[Mapping[str, FileIdentity]],
) -> set[tuple[str, FileIdentity]]:
    """The files that were deleted or replaced since; each is looked up once."""
    files = {file for one in opened for file in one.items()}
    return {(path, identity) for path, identity in files if is_replaced(path, identity)}


def locked_file(path: str, how: int = fcntl.LOCK_EX) -> int | None:
    """Lock a file, created if needed; its descriptor, or None if it is locked already."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def switch_to_wal(connection: sqlite3.Connection) -> None:
    """Use a write-ahead log, also if another process opens the new file at the same time."""
    for attempt in range(_WAL_ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # two processes open a new file at once: this pragma ignores the busy timeout
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or attempt == _WAL_ATTEMPTS - 1:
                raise
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        else:
            return
