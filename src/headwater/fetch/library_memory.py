"""Releases memory that libraries keep: lxml's interned names, malloc's freed blocks (H1)."""

import ctypes
from contextlib import suppress

MAX_INTERNED_BYTES = 1 << 20  # of documents, until their names are dropped
_NAMES = "_ParserDictionaryContext"  # lxml's per-thread table of names
_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of <malloc.h>
_LARGE_BLOCK = 1 << 17  # bytes
_state_of_thread = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThreadState_GetDict", ctypes.pythonapi))


def forget_names() -> None:
    """Drop the names of elements and attributes that lxml interned in this thread.

    lxml never does: a feed with new names at every poll would fill the memory. Existing trees keep
    their names.
    """
    _thread_state().pop(_NAMES, None)


class InternedNames:
    """Counts the parsed bytes in this thread, and drops lxml's names now and then.

    Not after every document: interning the usual names again takes as long as a small feed.
    """

    def __init__(self) -> None:
        self._size = 0  # bytes of documents whose names are interned

    def count(self, size: int) -> None:
        """Count the bytes of documents that were parsed, or are about to be."""
        self._size += size
        if self._size > MAX_INTERNED_BYTES:
            forget_names()
            self._size = 0


def return_large_blocks() -> None:
    """From now on, return every freed large block to the system, if the C library supports it.

    By default glibc starts to keep blocks of tens of megabytes, in a pool for each thread.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE_BLOCK)


def return_freed_memory() -> None:
    """Return freed memory to the system, if the C library supports it."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def interned_names() -> object:
    """lxml's table of names of this thread, or None."""
    return _thread_state().get(_NAMES)


def _thread_state() -> dict[str, object]:
    """The dictionary in which libraries keep per-thread state; a borrowed reference."""
    address = _state_of_thread()
    return {} if address is None else ctypes.cast(address, ctypes.py_object).value
