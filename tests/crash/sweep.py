"""Forks a child of a warm parent for each point, lets it die there, and another one that judges what is left.

The parent has no threads and no connection: whatever a child does is gone with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pickle
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias

from crash import tracing
from crash.places import Place
from crash.tracing import COMMIT, EVENT, MARKS, Point, Watched
from crash.work import Verdict, Work, run_opened
from real_postgres import Postgres

Counts: TypeAlias = dict[tuple[str, int, str], int]
"""How often a line of a file is run by a role."""
TOGETHER = 12
"""How many of the dead are judged by one process, and in one go where they share a schema: to connect takes longer than to
look.
"""
PATIENCE = 40
"""Seconds after which a child is stuck, and ends."""


@dataclass
class Result:
    """What came of some points: how many processes were killed where, and what was wrong afterwards."""

    killed: Counter[str] = field(default_factory=Counter)
    again: int = 0
    missed: list[Point] = field(default_factory=list)
    waiting: int = 0
    wrong: list[tuple[Point, str]] = field(default_factory=list)

    def add(self, other: Result) -> None:
        self.killed += other.killed
        self.again += other.again
        self.missed += other.missed
        self.waiting += other.waiting
        self.wrong += other.wrong


class Sweep:
    """All that is done to one kind of database. `spoil` breaks the product where it is about to die, or to go on."""

    def __init__(self, work: Work, kind: str, base: Path, server: Postgres | None) -> None:
        self.work = work
        self.kind = kind
        self.base = base
        self.server = server
        self.spoil: Callable[[bool], None] = _whole
        self.brief = False
        """Whether to take less time: after a death at a commit, the work is not brought to its end."""
        self._made = ""

    def make(self) -> None:
        """Make a store without sessions: in a child, since the parent has no connection."""
        place = self._place("making")
        in_child(lambda: run_opened(place))
        self._made = str(place.folder / "home" / "sessions.db") if self.kind == "sqlite" else place.schema

    def _place(self, story: str) -> Place:
        return Place(self.kind, self.base, self.server, story, "" if story == "making" else self._made)

    # --- what there is to be done ---

    def counted(self, story: str) -> Counts:
        """Play it through, twice: once here, so that the parent is warm; once in a child, to count."""
        place = self._place(story)
        self.work.play(place)
        self.work.refer(self.kind, place)
        place.remove()
        _cool(self.work.packages)
        gc.collect()
        gc.freeze()
        place = self._place(story)
        status, value = in_child(lambda: self._counted(place))
        place.remove()
        if status or isinstance(value, str):
            raise RuntimeError(f"the workload does not even run to its end on {self.kind}: {status} {value}")
        return value

    # --- doing it ---

    def done(self, points: Sequence[Point]) -> Result:
        """Go through some points."""
        result = Result()
        if self.kind == "postgres":
            self.make()  # one for each who goes through points: only one can write at a time
        dead: list[tuple[Place, Point]] = []
        for point in points:
            place = self._one(point, result)
            dead += [(place, point)] if place is not None else []
            if len(dead) >= TOGETHER:
                self._judge(dead, result)
                dead = []
        if dead:
            self._judge(dead, result)
        return result

    def _one(self, point: Point, result: Result) -> Place | None:
        """Let a process die at a point; return what it left."""
        for attempt in (0, 1, 2):
            place = self._place(point.story)
            status, reached = in_child(lambda place=place, point=point: self._killed(place, point))
            if status == signal.SIGKILL:
                result.killed[point.file] += 1
                result.again += attempt > 0
                return place
            place.remove()
            if status or isinstance(reached, str):
                result.wrong.append((point, f"did not die there, but otherwise: {status} {reached}"))
                return None
            # Threads do not run the same way each time: the last time may have come sooner.
            point = point._replace(nth=min(point.nth, max(reached, 1)))
        result.missed.append(point)
        return None

    def _judge(self, dead: Sequence[tuple[Place, Point]], result: Result) -> None:
        """Judge what was left, in a process that knows nothing of those that died."""
        to_the_end = [not self.brief or point.file != COMMIT for _, point in dead]
        status, found = in_child(lambda: self._judged([place for place, _ in dead], to_the_end))
        for place, _ in dead:
            place.remove()
        if status or isinstance(found, str):
            result.wrong.append((dead[-1][1], f"could not be judged: {status} {found}"))
            return
        for (_, point), (wrong, waiting) in zip(dead, found, strict=True):
            result.waiting += waiting
            result.wrong += [(point, what) for what in wrong]

    # --- in a child ---

    def _counted(self, place: Place) -> Counts:
        found = tracing.count(self.work.watched, self.work.marked(self.kind))
        self.work.play(place)
        tracing.stop()
        return dict(found)

    def _killed(self, place: Place, point: Point) -> int:
        self.spoil(False)
        reached = tracing.kill_at(point, self.work.watched, self.work.marked(self.kind))
        self.work.play(place)
        tracing.stop()
        return reached[0]

    def _judged(self, places: Sequence[Place], to_the_end: Sequence[bool]) -> list[Verdict]:
        self.spoil(True)
        apart = [[at] for at, place in enumerate(places) if not place.before]
        near = [at for at, place in enumerate(places) if place.before]  # in one schema
        found: dict[int, Verdict] = {}
        for part in [*apart, *([near] if near else [])]:
            work = self.work.judged([places[at] for at in part], [to_the_end[at] for at in part])
            found |= zip(part, asyncio.run(work), strict=True)
        return [found[at] for at in range(len(places))]


def shared(sweep: Sweep, points: Sequence[Point], hands: int) -> Result:
    """Let several processes go through the points."""
    result = Result()
    waiting = [Started(lambda part=part: sweep.done(points[part::hands]), patience=0) for part in range(hands)]
    for started in waiting:
        status, value = started.end()
        if status or not isinstance(value, Result):
            raise RuntimeError(f"a part of the sweep ended with {status}: {value}")
        result.add(value)
    return result


def points_of(story: str, counts: Counts, watched: Watched) -> tuple[list[Point], list[Point]]:
    """Return the commits, each before and after, and the rest: each event as it is about to be told, and the lines, each
    at its first and last time in each role.
    """
    commits: list[Point] = []
    lines: list[Point] = []
    for (file, line, role), times in sorted(counts.items()):
        if file in MARKS:
            which = "after" if line else "before"
            every = [Point(story, file, line, role, nth, which) for nth in range(1, times + 1)]
            commits += every if file == COMMIT else []
            lines += every if (file, line) == (EVENT, 0) else []
        elif file not in watched.not_swept:
            lines.append(Point(story, file, line, role, 1, "first"))
            if times > 1:
                lines.append(Point(story, file, line, role, times, "last"))
    return commits, lines


# --- in a child -------------------------------------------------------------------------------------------------------


def _cool(packages: Sequence[str]) -> None:
    """What the modules themselves remember is forgotten: those lines, too, are to be come to."""
    for name, module in list(sys.modules.items()):
        if name.startswith(tuple(packages)):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def _whole(_: bool) -> None:
    """Break nothing."""


class Started:
    """A child at work. It ends with its work, without a word to anybody else; an error is what it says then."""

    def __init__(self, work: Callable[[], Any], patience: int = PATIENCE) -> None:
        self._answer, ask = os.pipe()
        sys.stdout.flush()
        self._pid = os.fork()
        if self._pid:
            os.close(ask)
            return
        signal.alarm(patience)
        os.close(self._answer)
        with contextlib.ExitStack() as ends:
            ends.callback(os._exit, 0)
            line = ends.enter_context(os.fdopen(ask, "wb"))
            ends.push(lambda _kind, exc, _trace: _told(line, exc))  # whatever it is, the parent has to hear of it
            pickle.dump(work(), line)

    def end(self) -> tuple[int, Any]:
        """Wait for it; return the signal that ended it, if one did, and what it said."""
        with os.fdopen(self._answer, "rb") as line:
            said = line.read()
        _, status = os.waitpid(self._pid, 0)
        ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        return ended, pickle.loads(said) if said and not ended else None


def _told(line: IO[bytes], exc: BaseException | None) -> None:
    if exc is not None:
        pickle.dump("".join(traceback.format_exception(exc)), line)


def in_child(work: Callable[[], Any]) -> tuple[int, Any]:
    """Have something done in a child; see `Started`."""
    return Started(work).end()
