"""Which turn of which script a request gets, and which of its faults still happen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from msgspec.structs import replace

from tenuto.sim.asked import Asked
from tenuto.sim.script import Cut, Deny, Fail, Script, Stall, Step, Turn, checked, turn

__all__ = ["Scripts", "Turns", "acting", "timed"]

Turns: TypeAlias = Iterable[Turn | Step | str | Script]
"""Turns as they are given: whole, of one step, of one text; or scripts."""


class Scripts:
    """The scripts of one simulator, one for each `when`. One without `when` is for whatever has none of its own.

    A turn that only denies takes no place: the request is made again, and the answer is that of the next turn.
    """

    def __init__(self, given: Turns = ()) -> None:
        self._scripts: tuple[Script, ...] = ()
        self.put(given)

    def put(self, given: Turns, when: str = "") -> None:
        """Set the script for conversations in which `when` occurs. No turns at all take it away.

        Raise `ValueError` if it is none.
        """
        given = (given,) if isinstance(given, str | Script | Step) else tuple(given)  # a text would fall into letters
        turns = [_turn(entry) for entry in given if not isinstance(entry, Script)]
        scripts = [entry for entry in given if isinstance(entry, Script)]
        if turns or not scripts:
            scripts.append(Script(tuple(turns), when))
        for script in [checked(script) for script in scripts]:
            others = tuple(old for old in self._scripts if old.when != script.when)
            self._scripts = (*others, _folded(script)) if script.turns else others

    def clear(self) -> None:
        """Take all scripts away."""
        self._scripts = ()

    def turn(self, asked: Asked) -> Turn | None:
        """Return the turn that a request gets; None if there is no script for it.

        Raise `LookupError`, which says so, beyond the end of a script.
        """
        script = self._script(asked)
        if script is None:
            return None
        if asked.turn < len(script.turns):
            return script.turns[asked.turn]
        about = f" for {script.when!r}" if script.when else ""
        raise LookupError(
            f"the script{about} has {_many(len(script.turns), 'turn')}, and this request holds "
            f"{_many(asked.turn, 'answer')} already: there is no turn {asked.turn + 1}"
        )

    def _script(self, asked: Asked) -> Script | None:
        first = next((said.text for said in asked.said if said.role != "system"), "")
        for script in self._scripts:
            if script.when and (script.when in asked.system or script.when in first):
                return script
        return next((script for script in self._scripts if not script.when), None)


def timed(turn: Turn) -> bool:
    """Tell whether a turn depends on how often it was asked for."""
    return any(isinstance(step, Deny | Fail | Cut | Stall) and step.times for step in turn)


def acting(turn: Turn, made: int) -> Turn:
    """Return the steps of a turn that happen when its request was made so often before.

    What ends an attempt (a denial, a failure, a cut) uses up the attempts it is for: behind two denials and one cut, the
    fourth attempt gets an answer.
    """
    kept: list[Step] = []
    for step in turn:
        if not isinstance(step, Deny | Fail | Cut | Stall) or step.times == 0 or made < step.times:
            kept.append(step)
        elif not isinstance(step, Stall) or step.seconds is None:
            made -= step.times
    return tuple(kept)


def _turn(given: Turn | Step | str) -> Turn:
    return turn(*given) if isinstance(given, tuple | list) else turn(given)


def _folded(script: Script) -> Script:
    turns: list[Turn] = []
    before: Turn = ()
    for entry in script.turns:
        if entry and all(isinstance(step, Deny) for step in entry):
            before = (*before, *entry)
        else:
            turns.append((*before, *entry))
            before = ()
    return replace(script, turns=(*turns, before) if before else tuple(turns))


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
