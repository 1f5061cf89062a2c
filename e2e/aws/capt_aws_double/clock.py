"""The time of the double: it can run fast, jump ahead, and call what is due."""

from __future__ import annotations

import datetime
import heapq
import itertools
import time
from collections.abc import Callable


class Clock:
    """A clock with a schedule. Nothing runs by itself: `run_due` is called before each request is answered."""

    def __init__(self) -> None:
        self._order = itertools.count()
        self.reset()

    def reset(self) -> None:
        """Goes back to the time of the machine, and forgets what was scheduled."""
        self._base = time.time()
        self._started = time.monotonic()
        self._rate = 1.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []

    @property
    def rate(self) -> float:
        """Seconds of the double in one second of the machine."""
        return self._rate

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._base + (time.monotonic() - self._started) * self._rate

    def time(self) -> datetime.datetime:
        """The same, as a time with a zone."""
        return datetime.datetime.fromtimestamp(self.now(), datetime.timezone.utc)

    def set_rate(self, rate: float) -> None:
        """Runs faster or slower from now on; 0 stops the clock."""
        self._base, self._started, self._rate = self.now(), time.monotonic(), rate

    def advance(self, seconds: float) -> None:
        """Jumps ahead."""
        self._base += seconds

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Schedules an action. One after 0 seconds runs before the next request, never within this one."""
        heapq.heappush(self._due, (self.now() + seconds, next(self._order), action))

    def run_due(self) -> None:
        """Runs what is due, in order of time; also what those actions make due."""
        while self._due and self._due[0][0] <= self.now():
            heapq.heappop(self._due)[2]()
