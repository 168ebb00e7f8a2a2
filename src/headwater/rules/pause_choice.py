"""The stored choice of a user to pause or resume, which a changed setting discards (G2)."""

_SEPARATOR = " while configured "


def is_paused(stored: str | None, *, configured: bool) -> bool:
    """Whether the scheduler is paused: by a choice made under this setting, else by the setting."""
    choice, _, setting = (stored or "").partition(_SEPARATOR)
    if setting != _word(paused=configured):  # no choice under this setting
        return configured
    return choice == _word(paused=True)


def choice_text(*, paused: bool, configured: bool) -> str:
    """A choice in the form that is stored."""
    return f"{_word(paused=paused)}{_SEPARATOR}{_word(paused=configured)}"


def _word(*, paused: bool) -> str:
    return "paused" if paused else "running"
