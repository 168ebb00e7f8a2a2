"""Switch: whether the scheduler starts polls by itself, kept over restarts (G2)."""

from headwater.store.facts import Facts

_PAUSED_FACT = "paused"


class Switch:
    """On or off as a person left it; as configured as long as nobody touched it."""

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
            self.paused = self._configured if fact is None else fact == "true"
        return self.paused

    async def turn(self, *, paused: bool) -> None:
        """Keep what a person wants."""
        await self._facts.set(_PAUSED_FACT, "true" if paused else "false")
        self._turned += 1
        self.paused = paused
