"""Detects the charset of text that declares none and is not UTF-8, from a bounded sample (R1)."""

import re

# Charsets to choose from, as the detector names them -> the codec that decodes them.
_MULTIBYTE = {
    "cp932": "cp932",  # Shift_JIS
    "euc_jp": "euc_jp",
    "gb18030": "gb18030",  # GB2312 and GBK too
    "big5": "big5hkscs",
    "cp949": "cp949",  # EUC-KR
}
_CYRILLIC = {"cp1251": "cp1251", "koi8_r": "koi8-r"}
_CHOICE = [*_MULTIBYTE, *_CYRILLIC, "cp1252"]
SAMPLE_BYTES = 16_384  # some milliseconds for any content (H2)
_WINDOW_BYTES = 1 << 18  # that a sample is taken from
_NON_ASCII = re.compile(rb"[\x80-\xff]")
# Markup between texts. Its first bytes stay: one of them may be the second half of a character.
_LONG_ASCII = re.compile(rb"(?<=[\x00-\x7f]{4})[\x00-\x7f]{16,}+")
_WORDS = re.compile(r"[^\x00-\x7f]+")
_MIN_CHARACTERS = 8
_MIN_RUN = 2  # characters next to each other, on average: accented letters stand alone
_MIN_COHERENCE = 0.3  # how well the letters fit a language, from 0 to 1


def detected_codec(data: bytes) -> str | None:
    """The codec for a text in an East Asian or Cyrillic charset; None for any other."""
    sample = sample_of(data)
    if not sample:
        return None
    # slow to import, and few documents need it
    from charset_normalizer import from_bytes

    best = from_bytes(sample, cp_isolation=_CHOICE).best()
    if best is None:
        return None
    if best.encoding in _CYRILLIC:
        return _CYRILLIC[best.encoding] if best.coherence >= _MIN_COHERENCE else None
    codec = _MULTIBYTE.get(best.encoding)
    return codec if codec and _has_words(sample.decode(codec, "replace")) else None


def sample_of(data: bytes) -> bytes:
    """The first bytes of text that is not ASCII, without long markup, ending after a character."""
    first = _NON_ASCII.search(data)
    if first is None:
        return b""
    window = data[max(first.start() - 8, 0) : first.start() + _WINDOW_BYTES]
    sample = _LONG_ASCII.sub(b" ", window)
    if len(sample) <= SAMPLE_BYTES and len(window) < _WINDOW_BYTES:
        return sample
    sample = sample[:SAMPLE_BYTES]
    end = max(sample.rfind(b" "), sample.rfind(b"<"), sample.rfind(b"\n")) + 1
    return sample[: end or None]


def _has_words(text: str) -> bool:
    """Whether such characters come in words, unlike accented letters read as half of one."""
    words = _WORDS.findall(text)
    count = sum(map(len, words))
    return count >= _MIN_CHARACTERS and count >= _MIN_RUN * len(words)
