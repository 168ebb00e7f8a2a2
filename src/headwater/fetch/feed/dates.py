"""Parses dates in the formats that feeds use, to UTC (M7)."""

import re
import unicodedata
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from headwater.model import EPOCH

MAX_DATE_LENGTH = 100  # also bounds the cost of the patterns below

# One line per month; a word counts if it starts with one of these (without accents).
_MONTH_WORDS = (
    "jan ene gen styc янв ιαν oca led sau",
    "feb fev fevr lut фев φεβ sub uno vas",
    "mar mrt maerz marz мар μαρ bre kov",
    "apr abr avr kwi апр απρ nis dub bal",
    "may mai maj mei mag мая маи μαι mayi kve geg maujus",
    "jun juin giu cze июн ιουν haz cerven bir",
    "jul juil lug lip июл ιουλ tem cervenec lie",
    "aug ago aou sie авг αυγ agu srp rugp",
    "sep set wrz сен σεπ eyl zari rugs sze",
    "oct okt out ott paz окт οκτ eki rij spa",
    "nov lis ноя νοε kas listop lap",
    "dec dez des dic gru дек δεκ ara pros gruo",
)
_MONTHS = {word: number for number, words in enumerate(_MONTH_WORDS, 1) for word in words.split()}
_LONGEST_MONTH_WORD = max(map(len, _MONTHS))

_ZONE_WORDS = {  # minutes east of Greenwich
    -720: "y",
    -600: "hst hast",
    -540: "akst hadt",
    -480: "pst pt akdt",
    -420: "mst pdt mt",
    -360: "cst mdt ct",
    -300: "est cdt et",
    -240: "edt ast at clt",
    -210: "nst",
    -180: "adt brt art clst",
    -150: "ndt",
    0: "z gmt ut utc uct wet zulu etc/gmt etc/utc etc/uct gmt/bst",
    60: "cet met bst west mez wat",
    120: "cest mest eet sast mesz cat",
    180: "eest msk eat trt",
    210: "irst",
    240: "msd gst",
    300: "pkt",
    330: "ist",
    345: "npt",
    420: "wib ict",
    480: "awst hkt sgt pht wita myt",
    540: "jst kst wit",
    570: "acst",
    600: "aest",
    630: "acdt",
    660: "aedt",
    720: "nzst",
    780: "nzdt",
}
_ZONES = {word: minutes for minutes, words in _ZONE_WORDS.items() for word in words.split()}

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

_PATTERNS = (
    re.compile(  # Thu, 01 Jan 2004 19:48:21 GMT; possessive, or long garbage is costly (H2)
        rf"(?:[^\W\d_]++\.?+\s*+,?+\s*+)?+{_DAY}(?:st|nd|rd|th)?\.?(?:[\s-]|de\s)*+{_NAME},?"
        r"(?:[\s-]|de\s)*+"
        rf"(?P<year>\d{{2,4}}),?(?:(?:\s+(?:at\s+|-\s+)?|T){_CLOCK})?"
    ),
    re.compile(  # 2003-12-31T10:14:55Z, 2003-12, 2003/12/31 10:14, Wed, 2003/12/31 10:14 EST
        rf"{_WEEKDAY}"
        r"(?P<year>\d{4})(?:(?P<dash>[-/.])(?P<month>\d{1,2})(?:(?P=dash)(?P<day>\d{1,2}))?)?"
        rf"(?:(?:\s*[Tt,]\s*|\s+){_CLOCK})?"
    ),
    re.compile(  # 20031231, 20031231T101455Z
        r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})"
        rf"(?:[Tt ]?(?P<hour>\d{{2}}):?(?P<minute>\d{{2}}):?(?P<second>\d{{2}})?\s*{_ZONE}?)?"
    ),
    re.compile(  # 2003-365
        rf"(?P<year>\d{{4}})-?(?P<ordinal>\d{{3}})(?:[Tt]{_CLOCK})?"
    ),
    re.compile(  # 031231, 03-12-31, -0312
        r"-?(?P<year>\d{2})-?(?P<month>\d{2})(?:-?(?P<day>\d{2}))?(?<=\d{4}|\d-\d\d)"
    ),
    re.compile(  # Sun, July 15, 2012 1:16 PM
        rf"{_WEEKDAY}{_NAME}\s+{_DAY}(?:st|nd|rd|th)?,?\s+(?P<year>\d{{4}})"
        rf"(?:,?\s+(?:at\s+|-\s+)?{_CLOCK})?"
    ),
    re.compile(  # Sun Jul 15 01:16:00 +0000 2012
        rf"{_WEEKDAY}{_NAME}\s+{_DAY},?\s+{_TIME}\s+(?:{_ZONE}\s+)?(?P<year>\d{{4}})"
    ),
    re.compile(  # 2004-július-13T9:15-05:00
        rf"(?P<year>\d{{4}})[\s.-]+{_NAME}[\s.-]+{_DAY}\.?(?:[T\s]+{_CLOCK})?"
    ),
    re.compile(  # 12/31/2003 10:14, 31.12.2003
        r"(?P<first>\d{1,2})(?P<dash>[/.-])(?P<other>\d{1,2})(?P=dash)(?P<year>\d{4})"
        rf"(?:,?\s+{_CLOCK})?"
    ),
    re.compile(  # 2004년 05월 28일 01:31:15, 2004年5月28日, 2004-05-25 오후 11:23
        r"(?P<year>\d{4})(?P<unit>[년年-])\s*(?P<month>\d{1,2})[월月-]\s*(?P<day>\d{1,2})[일日]?"
        rf"(?:\s*(?P<korean>오전|오후)?\s*{_CLOCK})?"
    ),
)
_RFC822 = re.compile(  # the most usual form of the first pattern
    r"[A-Z][a-z]{2}, (\d\d) ([A-Z][a-z]{2}) (\d{4}) "
    r"(\d\d):(\d\d):(\d\d) (?:GMT|([+-])([01]\d|2[0-3])([0-5]\d))",
    re.ASCII,
)
_EPOCH = re.compile(r"\d{9,10}|\d{13}")
_COMMENT = re.compile(r"\([^()]*\)")
_OFFSET = re.compile(
    r"(?P<name>[A-Za-z/_]*)(?:(?P<sign>[+-])(?P<hours>\d{1,2}):?(?P<minutes>\d{0,2}))?"
)
_KOREA_MINUTES = 9 * 60
_MILLISECOND = timedelta(milliseconds=1)

Fields = dict[str, str | None]


def parse_date(text: str) -> datetime | None:
    """The time that a date of a feed means, in UTC and whole milliseconds, or None (M7)."""
    text = text.strip()
    if not text or len(text) > MAX_DATE_LENGTH:
        return None
    try:
        return _moment(text)
    except (ValueError, OverflowError):  # 31 February, hour 25, before year 1 in UTC
        return None


def _moment(text: str) -> datetime | None:
    """Parse the usual formats without the patterns, which would add a quarter to a feed's time."""
    with suppress(ValueError):  # such as a leap second: one of the patterns may match
        if found := _RFC822.fullmatch(text):
            day, name, year, hour, minute, second, sign, hours, minutes = found.groups()
            month = _MONTHS.get(name.lower(), 0)
            moment = datetime(
                int(year), month, int(day), int(hour), int(minute), int(second), 0, UTC
            )
            if sign is None:
                return moment
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            return moment - offset if sign == "+" else moment + offset
        if text[0].isdigit() and "T" in text:
            return _in_utc(datetime.fromisoformat(text))
    return parse_by_patterns(text)


def parse_by_patterns(text: str) -> datetime | None:
    """The same for any format, without the fast paths of `parse_date`; may raise ValueError."""
    if _EPOCH.fullmatch(text):
        unit = timedelta(seconds=1) if len(text) < 13 else _MILLISECOND
        return EPOCH + int(text) * unit  # exact, unlike a float of this size
    text = _COMMENT.sub("", text).strip()
    for pattern in _PATTERNS:
        found = pattern.fullmatch(text)
        moment = _built(found.groupdict()) if found else None
        if moment is not None:
            return moment
    return None


def _in_utc(moment: datetime) -> datetime:
    """Move to UTC without `astimezone`, which overflows at the ends of the calendar."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return EPOCH + (moment - EPOCH) // _MILLISECOND * _MILLISECOND


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
    return year + 1900 if len(digits) == 3 else year  # 103: years since 1900


def _month_day(fields: Fields) -> tuple[int, int] | None:
    if fields.get("name"):
        month = _month(fields["name"] or "")
        return None if month is None else (month, int(fields["day"] or 1))
    if fields.get("first"):
        first, other = int(fields["first"] or 1), int(fields["other"] or 1)
        day_first = fields["dash"] != "/" or first > 12  # dates with slashes are mostly American
        return (other, first) if day_first else (first, other)
    return int(fields.get("month") or 1), int(fields.get("day") or 1)


def _month(word: str) -> int | None:
    word = word.lower()
    if not word.isascii():
        marks = unicodedata.normalize("NFKD", word)
        word = "".join(letter for letter in marks if not unicodedata.combining(letter))
    for length in range(_LONGEST_MONTH_WORD, 2, -1):
        number = _MONTHS.get(word[:length])
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
    minutes = _ZONES.get(name, 0)  # an unknown zone: a date off by hours is better than none
    if found["sign"]:
        digits = found["hours"] + (found["minutes"] or "")
        east = int(found["hours"]) * 60 + int(found["minutes"] or 0)
        if len(digits) == 3 and ":" not in zone:  # -800
            east = int(digits[0]) * 60 + int(digits[1:])
        if east > 24 * 60:
            return None
        minutes += -east if found["sign"] == "-" else east
    return timedelta(minutes=minutes)
