"""Decodes documents: by byte order mark, HTTP header, declaration, then by a guess."""

import codecs
import re
from functools import lru_cache

from headwater.formats.charset_detection import detected_codec

_BYTE_ORDER_MARKS = (  # UTF-32 first: its little-endian mark starts with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_BARE_STARTS = (  # `<?xm`, `<rss` or `{` in encodings without a byte order mark
    (re.compile(rb"[<{\[\s]\x00\x00\x00"), "utf-32-le"),
    (re.compile(rb"\x00\x00\x00[<{\[\s]"), "utf-32-be"),
    (re.compile(rb"[<{\[\s]\x00[^\x00]\x00"), "utf-16-le"),
    (re.compile(rb"\x00[<{\[\s]\x00[^\x00]"), "utf-16-be"),
    (re.compile(rb"\x4c\x6f\xa7\x94"), "cp037"),  # EBCDIC `<?xm`
)
# possessive: no backtracking over a header of spaces (H2)
_HTTP_CHARSET = re.compile(r"""charset\s*+=\s*+["']?+\s*+([\w.:-]{1,40})""", re.IGNORECASE)
_DECLARED = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s*+=\s*+["']\s*+([\w.:-]{1,40})""")
_NON_ASCII = bytes(range(128, 256))
_SINGLE_BYTE = ("cp125", "cp874", "iso8859", "koi8", "mac-")
_WIDE = ("utf-16", "utf-32", "utf_16", "utf_32")

# Labels that browsers treat as a larger character set.
_MEANT = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "hz": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}
_ALIASES = {
    "x-sjis": "cp932",
    "windows-31j": "cp932",
    "ks_c_5601": "cp949",
    "windows-949": "cp949",
    "x-gbk": "gb18030",
    "x-x-big5": "big5hkscs",
    "x-mac-roman": "mac-roman",
    "macintosh": "mac-roman",
    "windows-874": "cp874",
    "unicode": "utf-8",
}
# Python has codecs that are not text encodings (zip, punycode …), so this is a list of good ones.
_TRUSTED = re.compile(
    r"(utf-(8|16|32)|cp\d|iso8859|iso2022|koi8|mac-|gb|big5|euc|shift_jis|johab|tis|ptcp|kz|hp-rom)"
)


def decoded(data: bytes, content_type: str | None = None) -> str:
    """The text of a document in any encoding; never raises (R1)."""
    text = decoded_by_start(data)
    if text is not None:
        return text
    for label in (http_charset(content_type), declared_charset(data)):
        text = _labelled(data, label)
        if text is not None:
            return text
    return _guessed(data)


def decoded_by_start(data: bytes) -> str | None:
    """The text of a document whose first bytes show its encoding."""
    for mark, name in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    head = data[:4]
    for pattern, name in _BARE_STARTS:
        if pattern.match(head):
            return data.decode(name, "replace")
    return None


def decoded_utf8(data: bytes) -> str:
    """The text in UTF-8, with invalid bytes decoded as windows-1252."""
    return data.decode("utf-8", "headwater.windows")


def http_charset(content_type: str | None) -> str | None:
    """The charset that an HTTP content type names."""
    found = _HTTP_CHARSET.search(content_type) if content_type else None
    return found[1] if found else None


@lru_cache(maxsize=256)
def codec_name(label: str) -> str | None:
    """The Python codec for a label, widened as browsers do; None if it is not a text encoding."""
    label = label.strip().lower()
    if label in _ALIASES:
        return _ALIASES[label]
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError, UnicodeError):
        return None
    name = _MEANT.get(name, name)
    return name if _TRUSTED.match(name) else None


def declared_charset(data: bytes) -> str | None:
    """The encoding that an XML declaration names."""
    found = _DECLARED.search(data, 0, 1024)
    return found[1].decode("ascii", "ignore") if found else None


def _labelled(data: bytes, label: str | None) -> str | None:
    name = codec_name(label) if label else None
    if name is None or name.startswith(_WIDE):  # the first bytes would have shown a wide one
        return None
    if name.startswith(_SINGLE_BYTE):
        # Any bytes are valid in these charsets; bytes that are valid UTF-8 are UTF-8.
        text = _strictly(data, "utf-8")
        if text is not None:
            return text
    text = _strictly(data, name)
    if text is not None or name == "utf-8":
        return text
    # A single invalid byte must not turn a Japanese feed into Latin letters.
    text = data.decode(name, "replace")
    return text if text.count("\ufffd") * 100 <= len(text) else None


def _strictly(data: bytes, name: str) -> str | None:
    try:
        return data.decode(name)
    except UnicodeError:
        return None


def _guessed(data: bytes) -> str:
    exact = _strictly(data, "utf-8")
    if exact is not None:
        return exact
    text = data.decode("utf-8", "replace")
    wrong = text.count("\ufffd")
    right = len(text) - wrong - len(data.translate(None, _NON_ASCII))  # longer than a byte
    if right <= wrong and (codec := detected_codec(data)):
        found = data.decode(codec, "replace")
        if found.count("\ufffd") * 100 <= len(found):
            return found
    if right > wrong or wrong * 200 <= len(text):
        return decoded_utf8(data)
    return data.decode("cp1252", "replace")


def _as_windows(error: UnicodeError) -> tuple[str, int]:
    """Decode bytes that are not UTF-8 as windows-1252."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    wrong = error.object[error.start : error.end]
    if error.end == len(error.object):  # cut off within a character
        return "", error.end
    return wrong.decode("cp1252", "replace"), error.end


codecs.register_error("headwater.windows", _as_windows)
