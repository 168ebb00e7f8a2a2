"""Machine: what befell the process and its surroundings, as far as rules make allowance for it."""

_LONG_AGO = float("-inf")
_AN_INSTANT = 0.001


class Machine:
    """Moments are monotonic seconds."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.up = False
        self.up_since = _LONG_AGO
        self.clean = True  # how the last process ended
        self.upset_at = _LONG_AGO  # the clock was set, or the machine slept
        self.left_at = _LONG_AGO  # when that sleep began
        self.set_back_at = _LONG_AGO
        self.set_forward_at = _LONG_AGO
        self.in_trouble: str | None = None  # the network, in truth
        self.well_since = _LONG_AGO
        self.outage: str | None = None  # the network, as the engine sees it
        self.outage_at = _LONG_AGO
        self.outages = 0
        self.back_at = _LONG_AGO  # from an outage, a sleep, or another time
        self.returns = 0
        self.probed_at = _LONG_AGO
        self.good_at = _LONG_AGO  # some name had an address
        self.flying = 0
        self.most_flying = 0
        self.slept_seconds = 0.0
        self.down_seconds = 0.0
        self._down_since: float | None = None
        self.full_at = _LONG_AGO

    def start(self, at: float) -> None:
        """A process begins; it knows of no outage yet."""
        self.up, self.up_since = True, at
        self.outage = None
        if self._down_since is not None:
            self.down_seconds += at - self._down_since

    def stop(self, at: float, *, clean: bool) -> None:
        """The process ends."""
        self.up, self.clean = False, clean
        self.outage = None
        self._down_since = at

    def upset(self, at: float, what: str, seconds: float) -> None:
        """The clock was set, or the machine slept."""
        began = at - seconds if what == "slept" else at
        if began > self.upset_at:  # else it fell asleep again at once
            self.left_at = began
        self.upset_at = at
        if what == "slept":
            self.slept_seconds += seconds
        if what == "clock set":
            if seconds < 0:
                self.set_back_at = at
            else:
                self.set_forward_at = at

    def trouble(self, at: float, kind: str | None) -> None:
        """The network broke, or is well again."""
        self.in_trouble = kind
        if kind is None:
            self.well_since = at

    def outage_noticed(self, at: float, kind: str) -> None:
        """The engine thins polling out from here."""
        self.outage, self.outage_at = kind, at
        self.probed_at = _LONG_AGO

    def outage_over(self) -> None:
        """The engine goes back to normal."""
        self.outage = None
        self.outages += 1

    def comes_back(self, at: float) -> None:
        """Lanes come back from here on."""
        self.back_at = at
        self.returns += 1

    @property
    def is_beginning(self) -> bool:
        """Whether the process began after the last return, or right before the sleep it is from."""
        awake = self.left_at - self.up_since  # before it slept; the difference of sums has an error
        fell_asleep = self.back_at == self.upset_at and awake < _AN_INSTANT
        return self.up_since > self.back_at or fell_asleep

    def take_off(self, at: float) -> None:
        """A poll begins."""
        self.flying += 1
        if self.flying > self.most_flying:
            self.most_flying = self.flying
        if self.flying >= self.slots:
            self.full_at = at

    def jumped_ahead_since(self, moment: float) -> bool:
        """Whether a new process has only a clock that was set forward to tell how long ago it is.

        Then what was stored with a length in time seems to be over.
        """
        return self.up_since > moment and self.set_forward_at > moment
