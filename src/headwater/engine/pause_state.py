"""PauseState: whether the scheduler starts polls by itself, kept over restarts (G2)."""

from headwater.store.key_values import PAUSED_KEY, KeyValues

_SEPARATOR = " while configured "


class PauseState:
    """The last choice of a user, else the setting; a changed setting discards the choice."""

    def __init__(self, key_values: KeyValues, *, paused: bool) -> None:
        self._key_values = key_values
        self._configured = _word(paused=paused)
        self._changes = 0  # a read must not overwrite a change made while it ran
        self.paused = paused

    async def read(self) -> bool:
        """Read the stored choice; return whether the scheduler is paused."""
        changes = self._changes
        stored = await self._key_values.get(PAUSED_KEY)
        return self.apply(stored) if changes == self._changes else self.paused

    def apply(self, stored: str | None) -> bool:
        """Take over a stored choice; return whether the scheduler is paused."""
        choice, _, configured = (stored or "").partition(_SEPARATOR)
        if configured != self._configured:  # no choice under this setting
            choice = self._configured
        self.paused = choice == _word(paused=True)
        return self.paused

    async def store(self, *, paused: bool) -> None:
        """Store a user's choice."""
        stored = f"{_word(paused=paused)}{_SEPARATOR}{self._configured}"
        await self._key_values.set(PAUSED_KEY, stored)
        self._changes += 1
        self.paused = paused


def _word(*, paused: bool) -> str:
    return "paused" if paused else "running"
