"""How a run ends: the answer, or why there is none; what was lost; how to go on; and the exit code."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from tenuto.agent.session import AsyncSession
from tenuto.cli.exits import Exit, Told, explained
from tenuto.cli.losing import loss_line, losses_of
from tenuto.cli.options import Given
from tenuto.cli.out_file import OutFile
from tenuto.cli.reading import short
from tenuto.cli.render import answer_of, call_line, usage_line
from tenuto.cli.screen import Screen
from tenuto.cli.streaming import Lines
from tenuto.core import jsonio
from tenuto.core.journal import CallFinished, Entry, ReplyReceived, RequestFailed
from tenuto.core.loss import Loss
from tenuto.core.messages import ToolCallView
from tenuto.errors import RunCancelled, SchemaMismatch, StoreError, TenutoError

if TYPE_CHECKING:
    from tenuto.cli.schema_file import Shape  # it loads what checks a schema: only for who gives one

__all__ = ["Ending", "cost_of", "ended", "tell_cut", "tell_used"]

_CUT = {
    "length": "the answer was cut off where --max-tokens, or the model, ends it",
    "content_filter": "the provider broke the answer off, or the model refused",
}
_UNKEPT = "nothing of it is kept (--ephemeral): allow such calls beforehand, with --allow or --approve auto"


class Ending:
    """A session whose run is over, and why."""

    def __init__(self, session: AsyncSession, given: Given, *, out: OutFile | None = None, signal: int = 0) -> None:
        self.session = session
        self.given = given
        self.out = out
        self.signal = signal
        self.head = session._log.head
        """The last entry before the run."""
        self.error: TenutoError | None = None
        self.said_before = False
        """Nothing was left to do: the answer is from an earlier run."""
        self.seconds: float | None = None
        self.denied: list[ToolCallView] = []
        """The calls of this run that somebody, or something typed, did not allow."""
        self.fresh: set[Loss] = set()
        """What was lost in this run when the session went on with another model."""
        self.lines: Lines | None = None
        self.shape: Shape | None = None
        self.json = ""
        """The answer with nothing around it, once it is known to have its shape."""
        self._unfit: SchemaMismatch | None = None
        self._unwritten: OSError | None = None

    def judge(self) -> None:
        """See whether the answer has the shape that was asked for."""
        if self.shape is None or not self.whole:
            return
        try:
            self.json = self.shape.fitting(self.session.last)
        except SchemaMismatch as exc:
            self._unfit = exc

    def write(self, text: str) -> None:
        """Write the answer, or the document, to the file that was named; if that fails, it is remembered."""
        assert self.out is not None
        try:
            self.out.write(text)
        except OSError as exc:
            self._unwritten = exc

    @property
    def failure(self) -> Exception | None:
        """What went wrong: in the run, with the answer, or with the file; a run that was cancelled from here did not."""
        if self.error is not None:
            return None if self.signal and isinstance(self.error, RunCancelled) else self.error
        return self._unfit or self._unwritten

    @property
    def told(self) -> Told | None:
        """What is to be said of it."""
        failure = self.failure
        if failure is None:
            return None
        if failure is self._unwritten and self.out is not None:
            why = self._unwritten.strerror or str(self._unwritten)
            again = f"the answer is kept; to write it again: {self.command} --out {shlex.quote(self.out.named)}"
            what = f"{self.out.named!r} could not be written, and is as it was before: {why}"
            return Told(Exit.FAILED, what, again if self.kept else "")
        return explained(failure, model=self.session.model)

    @property
    def code(self) -> int:
        """The exit code."""
        if self.signal:
            return 128 + self.signal
        if (told := self.told) is not None:
            return int(told.code)
        return int(Exit.APPROVAL if self.session.pending or self.denied else Exit.DONE)

    @property
    def whole(self) -> bool:
        """Whether there is an answer."""
        return self.session.status == "completed" and self.error is None

    @property
    def answer(self) -> str:
        """What the model answered; empty if it has not come so far."""
        return (self.json or answer_of(self.session.last)) if self.whole else ""

    @property
    def kept(self) -> bool:
        """Whether somebody can go on with the session later."""
        place = self.given.get("store") or ""
        gone = self.given.get("ephemeral") or ("store" in self._typed and place.startswith("memory:"))
        return not gone and self.session.status != "new"

    @property
    def command(self) -> str:
        """What has to be typed to go on, with the tools that have to be given again; a password is not repeated."""
        given, words = self.given, ["tenuto", "resume", short(self.session.id)]
        for name in given.get("tool", ()):
            words += ["-T", shlex.quote(name)] if ":" in name else []
        if "root" in self._typed:
            words += ["--root", shlex.quote(given.get("root", "."))]
        if "store" in self._typed and (place := given.get("store")):
            words += ["--store", "..." if "://" in place and "@" in place else shlex.quote(place)]
        return " ".join(words)

    @property
    def _typed(self) -> frozenset[str]:
        return self.given.get("typed", frozenset())


async def ended(ending: Ending, screen: Screen) -> int:
    """Tell how a run ended; return the exit code."""
    ending.judge()
    try:
        await _printed(ending, screen)
    except OSError as exc:  # stdout cannot be written
        if ending.kept:
            exc.add_note(f"the answer is kept; to see it: {ending.command}")
        raise
    told = ending.told
    if told is not None:
        screen.complain(told, ending.failure)
    if ending.signal:
        screen.say("stopped; what was said and done is kept" if ending.kept else "stopped")
    for pending in ending.session.pending:
        screen.say(f"waits for approval: {call_line(pending.call)}")
    for call in ending.denied:
        screen.say(f"denied: {call_line(call)}")
    tell_used(ending, screen)
    _hint(ending, screen)
    return ending.code


async def _printed(ending: Ending, screen: Screen) -> None:
    """Print the answer, and what there is to say of it."""
    if ending.lines is not None:
        ending.lines.result(await _document(ending))
    elif ending.given.get("json"):
        _print(ending, screen, jsonio.encode(await _document(ending)))
    else:
        _tell(ending, screen)
        await _tell_losses(ending, screen)
        tell_cut(ending, screen)


def _print(ending: Ending, screen: Screen, document: bytes) -> None:
    """Print a JSON document, or write it where the answer is to go."""
    if ending.out is not None:
        ending.write(document.decode("utf-8", "backslashreplace") + "\n")
    else:
        screen.document(document)


def _tell(ending: Ending, screen: Screen) -> None:
    if ending.said_before:
        screen.note("nothing is left to do; this was the last answer:" if ending.answer else "nothing is left to do")
    if ending.out is not None and ending.whole:
        ending.write(ending.answer if ending.answer.endswith("\n") else f"{ending.answer}\n")
    elif ending.json:
        screen.document(ending.json.encode("utf-8", "surrogatepass"))
    elif ending.out is None:
        screen.finish(ending.answer, streamed=not ending.said_before and ending.shape is None)


async def _tell_losses(ending: Ending, screen: Screen) -> None:
    """Say what was lost on the way to the answer, once: what a session has lost is lost with every question."""
    reply = ending.session.reply
    if ending.error is not None or reply is None or not reply.losses:
        return
    before = [entry for entry in await _entries(ending.session) if entry.seq <= ending.head]
    known = {*losses_of(before)} - ending.fresh
    for loss in reply.losses:
        if loss not in known:
            screen.note(f"lost: {loss_line(loss)}", "yellow")


def tell_cut(ending: Ending, screen: Screen) -> None:
    """Say what is the matter with an answer that is not all there."""
    last = ending.session.last
    if ending.whole and last is not None:
        cut = _CUT.get(last.stop_reason or "") or ("" if ending.answer else "the model said nothing")
        if cut:
            screen.say(cut, "yellow")


def tell_used(ending: Ending, screen: Screen) -> None:
    """Say what the run used: if that is wanted, and on a terminal unless the answer is all that is."""
    spent = ending.session._log.spent
    cost = None if spent.unpriced else spent.usd
    line = usage_line(spent.usage, cost, ending.seconds, ending.session.model)
    if ending.given.get("usage"):
        screen.say(line, "dim")
    elif screen.how.err_live and ending.seconds is not None and spent.turns:
        screen.note(line, "dim")


def _hint(ending: Ending, screen: Screen) -> None:
    """Say how to go on; someone who wants the answer only is told where there is none."""
    session, given = ending.session, ending.given
    if not ending.kept:
        if session.pending:
            screen.say(_UNKEPT)
        return
    if ending.code == 0 and (given.get("quiet") or given.get("json") or given.get("jsonl")):
        return
    if session.pending:
        screen.say(f"decide on a terminal with: {ending.command}\nor allow all with: {ending.command} --approve auto")
    else:
        screen.say(f"resume with: {ending.command}", "dim")


# --- as a document ----------------------------------------------------------------------------------------------------


async def _document(ending: Ending) -> dict[str, Any]:
    session, told = ending.session, ending.told
    entries = await _entries(session)
    last = session.last
    shaped = (
        {}
        if ending.shape is None
        else {"data": msgspec.Raw(ending.json.encode("utf-8", "surrogatepass")) if ending.json else None}
    )
    return {
        "session": session.id,
        "status": session.status,
        "waiting_for": session.waiting_for,
        "text": ending.answer,
        **shaped,
        "stop_reason": last.stop_reason if last is not None else None,
        "model": session.model,
        "usage": session.usage,
        "cost": None if (cost := cost_of(entries)) is None else float(cost),
        "losses": list(losses_of(entries)),
        "pending": [_call(one.call) for one in session.pending],
        "denied": [_call(call) for call in ending.denied],
        "error": None
        if told is None
        else {"type": type(ending.failure).__name__, "message": told.what, "next": told.next},
        "exit_code": ending.code,
    }


def _call(call: ToolCallView) -> dict[str, str]:
    return {"call": call.id, "name": call.name, "arguments": call.args}


async def _entries(session: AsyncSession) -> list[Entry]:
    try:
        return await session.entries()
    except StoreError:  # it is the store that failed, and that is told
        return []


def cost_of(entries: Iterable[Entry]) -> Decimal | None:
    """What a session cost in USD so far, with what failed and what sub-agents did; None if a reply did not tell."""
    acts = [
        entry.payload for entry in entries if isinstance(entry.payload, ReplyReceived | RequestFailed | CallFinished)
    ]
    if any(isinstance(act, ReplyReceived) and not act.cost for act in acts):
        return None
    return sum((Decimal(act.cost) for act in acts if act.cost), Decimal(0))
