"""The words that dates in feeds are made of: months in many languages, time zones."""

# One line per month; a word counts if it starts with one of these (accents taken off).
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
MONTHS = {word: number for number, words in enumerate(_MONTH_WORDS, 1) for word in words.split()}
LONGEST_MONTH_WORD = max(map(len, MONTHS))

_ZONE_WORDS = {  # minutes east of Greenwich
    -720: "y",
    -600: "hst hast",
    -540: "akst hadt",
    -480: "pst pt akdt",
    -420: "mst pdt mt",
    -360: "cst mdt ct",
    -300: "est cdt et",
    -240: "edt ast clt",
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
ZONES = {word: minutes for minutes, words in _ZONE_WORDS.items() for word in words.split()}
