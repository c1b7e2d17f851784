"""How a run ends: the answer, or why there is none; what was lost; how to go on; and the exit code."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from tenuto.agent.session import AsyncSession
from tenuto.cli.exits import Exit, Told, explained
from tenuto.cli.options import Given
from tenuto.cli.reading import short
from tenuto.cli.render import answer_of, call_line
from tenuto.cli.screen import Screen
from tenuto.core import jsonio
from tenuto.core.journal import Entry, HandedOver, Lost, Replied, Returned
from tenuto.core.target import Loss
from tenuto.errors import RunCancelled, StoreError, TenutoError

__all__ = ["Ending", "ended"]

_CUT = {
    "length": "the answer was cut off where --max-tokens, or the model, ends it",
    "content_filter": "the provider broke the answer off, or the model refused",
}


class Ending:
    """A session whose run is over, and why."""

    def __init__(self, session: AsyncSession, given: Given, *, signal: int = 0) -> None:
        self.session = session
        self.given = given
        self.signal = signal
        self.error: TenutoError | None = None
        self.said_before = False
        """Nothing was left to do: the answer is from an earlier run."""

    @property
    def told(self) -> Told | None:
        """What is to be said of the error; a run that was cancelled from here is none."""
        if self.error is None or (self.signal and isinstance(self.error, RunCancelled)):
            return None
        return explained(self.error)

    @property
    def code(self) -> int:
        """The exit code."""
        if self.signal:
            return 128 + self.signal
        if self.told is not None:
            return int(self.told.code)
        return int(Exit.APPROVAL if self.session.pending else Exit.DONE)

    @property
    def answer(self) -> str:
        """What the model answered; empty if it has not come so far."""
        whole = self.session.status == "completed" and self.error is None
        return answer_of(self.session.last) if whole else ""

    @property
    def place(self) -> str:
        """What has to be typed besides, for the same store to be found; a password is not repeated."""
        place = self.given.get("store") or ""
        return f" --store {'...' if '://' in place and '@' in place else shlex.quote(place)}" if place else ""


async def ended(ending: Ending, screen: Screen) -> int:
    """Tell how a run ended; return the exit code."""
    if ending.given.get("json"):
        screen.document(jsonio.encode(await _document(ending)))
    else:
        _tell(ending, screen)
    told = ending.told
    if told is not None:
        screen.complain(told, ending.error)
    if ending.signal:
        screen.say("stopped; what was said and done is kept" if ending.session.status != "new" else "stopped")
    for pending in ending.session.pending:
        screen.say(f"waits for approval: {call_line(pending.call)}")
    _hint(ending, screen)
    return ending.code


def _tell(ending: Ending, screen: Screen) -> None:
    session = ending.session
    if ending.said_before:
        screen.note("nothing is left to do; this was the last answer:" if ending.answer else "nothing is left to do")
    screen.finish(ending.answer, streamed=not ending.said_before)
    if ending.error is None and session.reply is not None:
        for loss in session.reply.losses:
            screen.note(f"lost: {loss.what} ({loss.place}){f'; {loss.remedy}' if loss.remedy else ''}", "yellow")
    if session.status == "completed" and session.last is not None and ending.error is None:
        cut = _CUT.get(session.last.stop_reason or "") or ("" if ending.answer else "the model said nothing")
        if cut:
            screen.say(cut, "yellow")


def _hint(ending: Ending, screen: Screen) -> None:
    """Say how to go on; someone who wants the answer only is told where there is none."""
    session, given = ending.session, ending.given
    if session.status == "new" or (given.get("store") or "").startswith("memory:"):
        return
    if ending.code == 0 and (given.get("quiet") or given.get("json")):
        return
    command = f"tenuto resume {short(session.id)}{ending.place}"
    if session.pending:
        screen.say(f"decide on a terminal with: {command}\nor allow all with: {command} --approve auto")
    else:
        screen.say(f"resume with: {command}", "dim")


# --- as a document ----------------------------------------------------------------------------------------------------


async def _document(ending: Ending) -> dict[str, Any]:
    session, told = ending.session, ending.told
    entries = await _entries(session)
    last = session.last
    return {
        "session": session.id,
        "status": session.status,
        "text": ending.answer,
        "stop_reason": last.stop_reason if last is not None else None,
        "model": session.model,
        "usage": session.usage,
        "cost": _cost(entries),
        "losses": list(_losses(entries)),
        "pending": [
            {"call": one.call.id, "name": one.call.name, "arguments": one.call.args} for one in session.pending
        ],
        "error": None
        if told is None
        else {"type": type(ending.error).__name__, "message": told.what, "next": told.next},
        "exit_code": ending.code,
    }


async def _entries(session: AsyncSession) -> list[Entry]:
    try:
        return await session.entries()
    except StoreError:  # it is the store that failed, and that is told
        return []


def _cost(entries: Iterable[Entry]) -> float | None:
    """What the session cost in USD so far; None if a reply did not tell."""
    replies = [entry.act for entry in entries if isinstance(entry.act, Replied)]
    below = [entry.act.cost for entry in entries if isinstance(entry.act, Returned) and entry.act.cost]
    if not all(reply.cost for reply in replies):
        return None
    return float(sum((Decimal(cost) for cost in (*(reply.cost for reply in replies), *below)), Decimal(0)))


def _losses(entries: Iterable[Entry]) -> Iterable[Loss]:
    for entry in entries:
        if isinstance(entry.act, Replied | HandedOver):
            yield from entry.act.losses
        elif isinstance(entry.act, Lost):
            yield entry.act.loss
