"""Generated news texts, edited copies of them, and boilerplate (I3)."""

from collections.abc import Callable
from itertools import accumulate
from random import Random

_COMMON = (
    "the of and to in a is that for it was on as with his be at by he from are this have not "
    "but had they which one you were her all she there would their we him been has when who "
    "will more no if out so said what up its about into than them can only other new some could "
    "time these two may then do first any my now such like our over man me even most made after "
    "also did many before must through years where much your way well down should because each "
    "just those people how too"
).split()
_ONSETS = "b br c ch cl d dr f fl g gr h j k l m n p pl pr qu r s sh sl st t th tr v w z".split()
_VOWELS = "a e i o u ai ea ee ou oa".split()
_CODAS = "n r l s t nd rt m ck ng st p x ll".split()
_BOILERPLATE = (
    "Subscribe to our newsletter and never miss a story again, you can unsubscribe at any time.",
    "This article was first published on our site and is republished with permission.",
    "Follow us on social media for the latest news, photos and videos from across the region.",
    "Read the full story on our website, where you can also leave a comment or contact the editor.",
    "All rights reserved. This material may not be published, broadcast, rewritten or distributed.",
    "The views expressed here are those of the author and do not represent those of the publisher.",
)
_AGENCIES = (
    "BERLIN, Nov 12 (Wire) — ",
    "(Example News Agency) - ",
    "By our staff and agencies in Lisbon. ",
    "Updated at 14:05 GMT. This is a developing story from our partner agency. ",
)


class TextGenerator:
    """Texts with the word frequencies of news; the same ones for the same seed."""

    def __init__(self, seed: int, vocabulary: int = 6000) -> None:
        self.rng = Random(seed)
        self._words = [self._invented_word() for _ in range(vocabulary)]
        self._frequencies = list(accumulate(1 / (rank + 3) for rank in range(vocabulary)))

    def text(self, words: int) -> str:
        """A text of about so many words."""
        subject = self.rng.choices(self._words, k=12)  # what it is about
        text: list[str] = []
        while len(text) < words:
            sentence = [self._word(subject) for _ in range(self.rng.randint(8, 24))]
            text += [sentence[0].capitalize(), *sentence[1:-1], f"{sentence[-1]}."]
        return " ".join(text[:words])

    def boilerplate(self) -> str:
        """One or two sentences that many texts of a publisher end with."""
        return " ".join(self.rng.sample(_BOILERPLATE, self.rng.randint(1, 2)))

    def framed(self, place: str, words: int) -> tuple[str, str]:
        """Two texts about different things with the same long introduction, footer or both.

        With a `byline`, some words in the middle of the introduction differ, too.
        """
        beginning, end = self.text(words), self.text(words)
        return self._framed(place, beginning, end), self._framed(place, beginning, end)

    def _framed(self, place: str, beginning: str, end: str) -> str:
        news = self.text(self.rng.choice((45, 60, 90, 150, 300)))
        match place:
            case "before":
                return f"{beginning} {news}"
            case "behind":
                return f"{news} {end}"
            case "both":
                return f"{beginning} {news} {end}"
            case "byline":
                first, rest = beginning.split()[:10], beginning.split()[10:]
                return " ".join([*first, self.text(self.rng.randint(2, 9)), *rest, news])
        raise ValueError(place)

    def _word(self, subject: list[str]) -> str:
        kind = self.rng.random()
        if kind < 0.5:
            return self.rng.choice(_COMMON)
        if kind < 0.62:
            return self.rng.choice(subject)
        if kind < 0.65:
            return str(self.rng.randint(2, 2030))
        return self.rng.choices(self._words, cum_weights=self._frequencies)[0]

    def _invented_word(self) -> str:
        syllables = self.rng.randint(1, 3)
        parts = (self.rng.choice(_ONSETS) + self.rng.choice(_VOWELS) for _ in range(syllables))
        return "".join(parts) + self.rng.choice(_CODAS)

    def edited(self, text: str, share: float) -> str:
        """The text with this share of its words replaced, deleted or joined by another one."""
        result: list[str] = []
        for word in text.split():
            if self.rng.random() >= share:
                result.append(word)
                continue
            match self.rng.choice(("replace", "replace", "delete", "insert")):
                case "replace":
                    result.append(self._word([word[::-1]]))
                case "insert":
                    result += [word, self._word([word[::-1]])]
        return " ".join(result)

    def with_agency_line(self, text: str) -> str:
        """The text behind the name of an agency."""
        return self.rng.choice(_AGENCIES) + text

    def cut_to_a_third(self, text: str) -> str:
        """The first third of the text."""
        words = text.split()
        return " ".join(words[: len(words) // 3]) + " …"

    def with_boilerplate(self, text: str) -> str:
        """The text with boilerplate behind it."""
        return f"{text} {self.boilerplate()}"


Edit = Callable[[TextGenerator, str], str]
EDITS: dict[str, Edit] = {
    "agency line": TextGenerator.with_agency_line,
    "5 % of words": lambda texts, text: texts.edited(text, 0.05),
    "10 % of words": lambda texts, text: texts.edited(text, 0.10),
    "20 % of words": lambda texts, text: texts.edited(text, 0.20),
    "cut to a third": TextGenerator.cut_to_a_third,
    "boilerplate appended": TextGenerator.with_boilerplate,
}
