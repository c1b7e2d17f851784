"""Long work: one line on stderr that says how far it is, on a terminal only, and gone at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tenuto.cli.cells import clipped, size
from tenuto.cli.escaping import one_line, shown
from tenuto.cli.screen import looks

__all__ = ["Progress", "progress"]

_PAUSE = 0.1
"""It is drawn ten times a second at most."""
_BAR = 20
_NOTE = 200


@contextmanager
def progress(what: str, total: int | None = None, *, quiet: bool = False) -> Iterator[Progress]:
    """Show how far something is while it is done; `total` is how much there is to do, if that is known.

    Nothing is drawn if `quiet`, or if stderr is no terminal; nothing is raised if it is closed.
    """
    bar = Progress(what, total, live=looks(quiet=quiet).err_live and not quiet)
    try:
        bar.draw()
        yield bar
    finally:
        bar.erase()


class Progress:
    """How far something is. `done` counts; whoever finds out later how much there is to do sets `total`."""

    def __init__(
        self, what: str, total: int | None = None, *, live: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.total = total
        self.done = 0
        self._what = one_line(what, _NOTE)
        self._note = ""
        self._live = live
        self._clock = clock
        self._since = clock()
        self._drawn_at = 0.0
        self._drawn = False

    def advance(self, by: int = 1) -> None:
        """So much more is done."""
        self.done += by
        self._draw_soon()

    def note(self, text: str) -> None:
        """What is being done at the moment, such as the name of a file; empty takes it away."""
        self._note = one_line(text, _NOTE)
        self._draw_soon()

    def say(self, line: str) -> None:
        """A line that stays, above; it is said off a terminal too."""
        self.erase()
        _err(f"{shown(line)}\n")
        self.draw()

    def line(self) -> str:
        """What is drawn: what it is, how far, how fast, how long it will take."""
        spent = self._clock() - self._since
        parts = [self._what, *self._measure(), *self._pace(spent), self._note]
        return "  ".join(filter(None, parts))

    def _measure(self) -> Iterator[str]:
        if not self.total:
            yield f"{self.done:,}"
            return
        share = min(max(self.done / self.total, 0.0), 1.0)
        full = int(share * _BAR)
        yield f"[{'#' * full}{'.' * (_BAR - full)}]"
        yield f"{int(share * 100):>3} %"
        yield f"{self.done:,} of {self.total:,}"

    def _pace(self, spent: float) -> Iterator[str]:
        """After the first second: what is sooner is chance."""
        if spent < 1 or self.done <= 0:
            return
        rate = self.done / spent
        yield f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s"
        if self.total and self.done < self.total:
            yield f"{_time((self.total - self.done) / rate)} left"

    def _draw_soon(self) -> None:
        if self._live and self._clock() - self._drawn_at >= _PAUSE:
            self.draw()

    def draw(self) -> None:
        """Draw the line, in the place of the last one."""
        if self._live:
            self._drawn_at, self._drawn = self._clock(), True
            _err(f"\r{clipped(self.line(), size(sys.stderr).columns - 1)}\x1b[K")

    def erase(self) -> None:
        """Take the line away."""
        if self._drawn:
            self._drawn = False
            _err("\r\x1b[K")


def _time(seconds: float) -> str:
    whole = int(seconds + 0.5)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _err(text: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # nobody sees it: that is no reason not to work
            sys.stderr.write(text)
            sys.stderr.flush()
