"""Dates as feeds write them -> moments in UTC; what cannot be a date is none (M7)."""

import re
import unicodedata
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from headwater.fetch.months import LONGEST_MONTH_WORD, MONTHS, ZONES
from headwater.model import EPOCH

MAX_DATE_LENGTH = 100  # also what keeps the patterns below cheap

_ZONE = (
    r"(?P<zone>[A-Za-z][A-Za-z/_]*(?:[+-]\d{1,2}:?\d{0,2})?"
    r"|[+-]\d{1,2}:?\d{0,2}(?::00)?(?:\s+[A-Z]{3,4})?)"
)
_TIME = (
    r"(?P<hour>\d{1,2})[:h](?P<minute>\d{1,2})"
    r"(?::(?P<second>\d{1,2})(?:[.,](?P<part>\d+))?)?"
)
_CLOCK = rf"{_TIME}\s*(?:(?P<half>[aApP])\.?[mM]\.?(?![A-Za-z])\s*)?{_ZONE}?"
_WEEKDAY = r"(?:[^\W\d_]++\.?,?\s++)?"
_DAY = r"(?P<day>\d{1,2})"
_NAME = r"(?P<name>[^\W\d_]++)\.?"

_MAIL = re.compile(  # Thu, 01 Jan 2004 19:48:21 GMT; possessive, or long nonsense is costly (H2)
    rf"(?:[^\W\d_]++\.?+\s*+,?+\s*+)?+{_DAY}(?:st|nd|rd|th)?\.?(?:[\s-]|de\s)*+{_NAME},?"
    r"(?:[\s-]|de\s)*+"
    rf"(?P<year>\d{{2,4}}),?(?:(?:\s+(?:at\s+|-\s+)?|T){_CLOCK})?"
)
_ISO = re.compile(  # 2003-12-31T10:14:55Z, 2003-12, 2003/12/31 10:14
    r"(?P<year>\d{4})(?:(?P<dash>[-/.])(?P<month>\d{1,2})(?:(?P=dash)(?P<day>\d{1,2}))?)?"
    rf"(?:(?:\s*[Tt,]\s*|\s+){_CLOCK})?"
)
_COMPACT = re.compile(  # 20031231, 20031231T101455Z
    r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})"
    rf"(?:[Tt ]?(?P<hour>\d{{2}}):?(?P<minute>\d{{2}}):?(?P<second>\d{{2}})?\s*{_ZONE}?)?"
)
_ORDINAL = re.compile(rf"(?P<year>\d{{4}})-?(?P<ordinal>\d{{3}})(?:[Tt]{_CLOCK})?")  # 2003-365
_SHORT = re.compile(  # 031231, 03-12-31, -0312
    r"-?(?P<year>\d{2})-?(?P<month>\d{2})(?:-?(?P<day>\d{2}))?(?<=\d{4}|\d-\d\d)"
)
_AMERICAN = re.compile(  # Sun, July 15, 2012 1:16 PM
    rf"{_WEEKDAY}{_NAME}\s+{_DAY}(?:st|nd|rd|th)?,?\s+(?P<year>\d{{4}})"
    rf"(?:,?\s+(?:at\s+|-\s+)?{_CLOCK})?"
)
_UNIX = re.compile(  # Sun Jul 15 01:16:00 +0000 2012
    rf"{_WEEKDAY}{_NAME}\s+{_DAY},?\s+{_TIME}\s+(?:{_ZONE}\s+)?(?P<year>\d{{4}})"
)
_YEAR_FIRST = re.compile(  # 2004-július-13T9:15-05:00
    rf"(?P<year>\d{{4}})[\s.-]+{_NAME}[\s.-]+{_DAY}\.?(?:[T\s]+{_CLOCK})?"
)
_NUMERIC = re.compile(  # 12/31/2003 10:14, 31.12.2003
    r"(?P<first>\d{1,2})(?P<dash>[/.-])(?P<other>\d{1,2})(?P=dash)(?P<year>\d{4})"
    rf"(?:,?\s+{_CLOCK})?"
)
_EASTERN = re.compile(  # 2004년 05월 28일 01:31:15, 2004年5月28日, 2004-05-25 오후 11:23
    r"(?P<year>\d{4})(?P<unit>[년年-])\s*(?P<month>\d{1,2})[월月-]\s*(?P<day>\d{1,2})[일日]?"
    rf"(?:\s*(?P<korean>오전|오후)?\s*{_CLOCK})?"
)
_PATTERNS = (
    _MAIL,
    _ISO,
    _COMPACT,
    _ORDINAL,
    _SHORT,
    _AMERICAN,
    _UNIX,
    _YEAR_FIRST,
    _NUMERIC,
    _EASTERN,
)
_USUAL_ZONE = re.compile(r" (?:GMT|([+-])([01][0-9]|2[0-3])([0-5][0-9]))")
_WEEKDAYS = frozenset(f"{name}, " for name in "Mon Tue Wed Thu Fri Sat Sun".split())
_EPOCH = re.compile(r"\d{9,10}|\d{13}")
_COMMENT = re.compile(r"\([^()]*\)")
_OFFSET = re.compile(
    r"(?P<name>[A-Za-z/_]*)(?:(?P<sign>[+-])(?P<hours>\d{1,2}):?(?P<minutes>\d{0,2}))?"
)
_KOREA_MINUTES = 9 * 60
_ENGLISH_MONTHS = {
    name: f"{number:02}"
    for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)
}

Fields = dict[str, str | None]


def parse_date(text: str) -> datetime | None:
    """The moment that a date of a feed means, in UTC and whole milliseconds, or None (M7)."""
    text = text.strip()
    if not text or len(text) > MAX_DATE_LENGTH:
        return None
    try:
        return _moment(text)
    except (ValueError, OverflowError):  # 31 February, hour 25, before year 1 in UTC
        return None


def _moment(text: str) -> datetime | None:
    if text[0].isdigit() and "T" in text:
        try:  # the usual case, and much quicker than any pattern
            return _in_utc(datetime.fromisoformat(text))
        except ValueError:
            pass  # perhaps one of the unusual ones below
    return _from_mail(text) or _by_patterns(text)


def _by_patterns(text: str) -> datetime | None:
    if _EPOCH.fullmatch(text):
        unit = timedelta(seconds=1) if len(text) < 13 else timedelta(milliseconds=1)
        return EPOCH + int(text) * unit  # exact, as no float of this size is
    text = _COMMENT.sub("", text).strip()
    for pattern in _PATTERNS:
        found = pattern.fullmatch(text)
        moment = _built(found.groupdict()) if found else None
        if moment is not None:
            return moment
    return None


def _from_mail(text: str) -> datetime | None:
    """Read a date letter for letter as most feeds write it; None where it is written otherwise."""
    east = _usual_zone(text[25:])
    month = _ENGLISH_MONTHS.get(text[8:11])
    if east is None or month is None or text[:5] not in _WEEKDAYS:
        return None
    if not text[7] == text[11] == text[16] == " " or not text[19] == text[22] == ":":
        return None
    try:
        moment = datetime.fromisoformat(f"{text[12:16]}-{month}-{text[5:7]}T{text[17:25]}+00:00")
    except ValueError:  # a leap second, for one
        return None
    return moment - east if east else moment


@lru_cache(maxsize=64)
def _usual_zone(text: str) -> timedelta | None:
    found = _USUAL_ZONE.fullmatch(text)
    if found is None:
        return None
    sign, hours, minutes = found.groups("0")
    east = timedelta(hours=int(hours), minutes=int(minutes))
    return -east if sign == "-" else east


def _in_utc(moment: datetime) -> datetime:
    """Move to UTC without `astimezone`, which overflows at the ends of the calendar."""
    offset = moment.utcoffset() or timedelta(0)
    exact = moment.replace(tzinfo=UTC) - offset
    return exact.replace(microsecond=exact.microsecond // 1000 * 1000)


def _built(fields: Fields) -> datetime | None:
    month_day = _month_day(fields)
    offset = _offset(fields)
    if month_day is None or offset is None:
        return None
    day = datetime(_year(fields), *month_day, tzinfo=UTC)
    if fields.get("ordinal"):
        day += timedelta(days=int(fields["ordinal"] or 1) - 1)
    return day + _time_of_day(fields) - offset


def _year(fields: Fields) -> int:
    digits = fields["year"] or ""
    year = int(digits)
    if len(digits) == 2:
        return year + (2000 if year < 69 else 1900)
    return year + 1900 if len(digits) == 3 else year  # 103: a program counted from 1900


def _month_day(fields: Fields) -> tuple[int, int] | None:
    if fields.get("name"):
        month = _month(fields["name"] or "")
        return None if month is None else (month, int(fields["day"] or 1))
    if fields.get("first"):
        first, other = int(fields["first"] or 1), int(fields["other"] or 1)
        day_first = fields["dash"] != "/" or first > 12  # with slashes Americans write most
        return (other, first) if day_first else (first, other)
    return int(fields.get("month") or 1), int(fields.get("day") or 1)


def _month(word: str) -> int | None:
    word = word.lower()
    if not word.isascii():
        marks = unicodedata.normalize("NFKD", word)
        word = "".join(letter for letter in marks if not unicodedata.combining(letter))
    for length in range(LONGEST_MONTH_WORD, 2, -1):
        number = MONTHS.get(word[:length])
        if number is not None:
            return number
    return None


def _time_of_day(fields: Fields) -> timedelta:
    hour, minute = int(fields.get("hour") or 0), int(fields.get("minute") or 0)
    second = int(fields.get("second") or 0)
    half = (fields.get("half") or "").lower()
    if fields.get("korean"):
        half = "p" if fields["korean"] == "오후" else "a"
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    midnight_after = (hour, minute, second) == (24, 0, 0)
    if (hour > 23 and not midnight_after) or minute > 59 or second > 60:
        raise ValueError("no such time of day")
    milliseconds = int((fields.get("part") or "0")[:3].ljust(3, "0"))
    return timedelta(hours=hour, minutes=minute, seconds=min(second, 59), milliseconds=milliseconds)


def _offset(fields: Fields) -> timedelta | None:
    zone = fields.get("zone")
    if not zone:
        eastern = fields.get("unit") == "년" or fields.get("korean")
        return timedelta(minutes=_KOREA_MINUTES if eastern else 0)
    found = _OFFSET.match(zone)
    if found is None:
        return None
    name = found["name"].lower()
    minutes = ZONES.get(name, 0)  # an unknown name: better a date off by hours than none
    if found["sign"]:
        digits = found["hours"] + (found["minutes"] or "")
        east = int(found["hours"]) * 60 + int(found["minutes"] or 0)
        if len(digits) == 3 and ":" not in zone:  # -800
            east = int(digits[0]) * 60 + int(digits[1:])
        if east > 24 * 60:
            return None
        minutes += -east if found["sign"] == "-" else east
    return timedelta(minutes=minutes)
