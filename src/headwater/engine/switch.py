"""Switch: whether the scheduler starts polls by itself, kept over restarts (G2)."""

from headwater.store.facts import Facts

_PAUSED_FACT = "paused"
_UNDER = " while configured "


class Switch:
    """On or off as a person left it; as configured if nobody did since the setting changed."""

    def __init__(self, facts: Facts, *, paused: bool) -> None:
        self._facts = facts
        self._configured = paused
        self._turned = 0  # how often, so that a look does not undo what was turned meanwhile
        self.paused = paused

    async def look(self) -> bool:
        """Find out what is stored: whether the scheduler is paused."""
        turned = self._turned
        fact = await self._facts.get(_PAUSED_FACT)
        if turned == self._turned:
            told, _, configured = (fact or "").partition(_UNDER)
            # what was wanted under another setting is older than this one
            counts = fact is not None and configured == _word(paused=self._configured)
            self.paused = told == _word(paused=True) if counts else self._configured
        return self.paused

    async def turn(self, *, paused: bool) -> None:
        """Keep what a person wants."""
        under = _word(paused=self._configured)
        await self._facts.set(_PAUSED_FACT, f"{_word(paused=paused)}{_UNDER}{under}")
        self._turned += 1
        self.paused = paused


def _word(*, paused: bool) -> str:
    return "paused" if paused else "running"
