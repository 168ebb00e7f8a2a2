"""Memory that libraries keep for later, given back (H1)."""

import ctypes
from contextlib import suppress

REMEMBERED_BYTES = 1 << 20  # of documents, whose names are kept for the next ones
_NAMES = "_ParserDictionaryContext"  # where lxml keeps, per thread, every name it ever read
_MMAP_THRESHOLD = -3  # as <malloc.h> has it
_LARGE_BLOCK = 1 << 20  # bytes
_state_of_thread = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThreadState_GetDict", ctypes.pythonapi))


def forget_names() -> None:
    """Let go of the names of elements and attributes that documents brought to this thread.

    They are kept for ever otherwise: a feed that invents some at every visit would fill the memory.
    Trees that are still there keep theirs.
    """
    _thread_state().pop(_NAMES, None)


class Names:
    """Counts what was parsed in this thread, and forgets its names now and then.

    Not after every document: to learn the usual ones anew takes as long as a small feed.
    """

    def __init__(self) -> None:
        self._size = 0  # of documents whose names are kept

    def grow(self, size: int) -> None:
        """A document of this many bytes, or several, were parsed, or are about to be."""
        self._size += size
        if self._size > REMEMBERED_BYTES:
            forget_names()
            self._size = 0


def keep_no_large_blocks() -> None:
    """Have every large block returned when it is freed, from now on, where the C library can.

    By itself it learns to keep blocks of tens of megabytes, in a pool for each thread.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE_BLOCK)


def give_back() -> None:
    """Return to the system what was freed, where the C library keeps it and can be asked."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def _thread_state() -> dict[str, object]:
    """What libraries keep for this thread; the reference is lent, so that it must not be taken."""
    address = _state_of_thread()
    return {} if address is None else ctypes.cast(address, ctypes.py_object).value
