"""PauseState: whether the scheduler starts polls by itself, kept over restarts (G2)."""

from headwater.rules.pause_choice import choice_text, is_paused
from headwater.store.key_values import PAUSED_KEY, KeyValues


class PauseState:
    """The last choice of a user, else the setting; a changed setting discards the choice."""

    def __init__(self, key_values: KeyValues, *, paused: bool) -> None:
        self._key_values = key_values
        self._configured = paused
        self._changes = 0  # a read must not overwrite a change made while it ran
        self.paused = paused

    async def read(self) -> bool:
        """Read the stored choice; return whether the scheduler is paused."""
        changes = self._changes
        stored = await self._key_values.get(PAUSED_KEY)
        return self.apply(stored) if changes == self._changes else self.paused

    def apply(self, stored: str | None) -> bool:
        """Take over a stored choice; return whether the scheduler is paused."""
        self.paused = is_paused(stored, configured=self._configured)
        return self.paused

    async def store(self, *, paused: bool) -> None:
        """Store a user's choice."""
        text = choice_text(paused=paused, configured=self._configured)
        await self._key_values.set(PAUSED_KEY, text)
        self._changes += 1
        self.paused = paused
