"""The result of a run: answer, losses, usage, hint for resuming, exit code."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from tenuto.agent.session import AsyncSession
from tenuto.cli.errors import ExitCode, Explanation, explain_error
from tenuto.cli.files import OutputFile
from tenuto.cli.options import RunOptions
from tenuto.cli.session.approval import format_pending
from tenuto.cli.session.call_view import format_call
from tenuto.cli.session.events import answer_text, format_usage
from tenuto.cli.session.jsonl import JsonlWriter
from tenuto.cli.session.losses import recorded_losses, summarize_losses
from tenuto.cli.store import short_id
from tenuto.cli.terminal.display import Display
from tenuto.core import jsonio
from tenuto.core.journal import CallFinished, Compacted, Entry, ReplyReceived, RequestFailed
from tenuto.core.loss import Loss
from tenuto.core.messages import ToolCallView
from tenuto.errors import RunCancelled, SchemaMismatch, SessionInUse, StoreError, TenutoError

if TYPE_CHECKING:
    from tenuto.cli.session.output_schema import OutputSchema


_TRUNCATION = {
    "length": "answer truncated (max tokens)",
    "content_filter": "answer blocked by the provider",
}
_USAGE = (
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
    "total_tokens",
)
"""The keys of `usage` in a document, also if they are unknown."""
_STOP_CODES = {"length": ExitCode.LIMIT, "content_filter": ExitCode.FAILED}
_NOT_SAVED = "not saved (--ephemeral); allow such calls up front with --allow"


class RunResult:
    """The result of a run: session, error, answer."""

    def __init__(self, session: AsyncSession, options: RunOptions, *, out: OutputFile | None = None) -> None:
        self.session = session
        self.options = options
        self.out = out
        self.signal = 0
        self.head = session._log.head
        """The last entry before the run."""
        self.error: TenutoError | None = None
        self.is_earlier_answer = False
        """Whether nothing was left to do: the answer is from an earlier run."""
        self.seconds: float | None = None
        """The duration of the run without the time at approval questions."""
        self.denied: list[ToolCallView] = []
        self.new_losses: set[Loss] = set()
        """The losses of switches to another model in this run, which are printed at once."""
        self.jsonl: JsonlWriter | None = None
        self.schema: OutputSchema | None = None
        self.json = ""
        """The JSON of an answer that matches the schema."""
        self._mismatch: SchemaMismatch | None = None
        self._write_error: OSError | None = None

    def validate(self) -> None:
        """Check the answer against the schema."""
        if self.schema is None or not self.has_answer:
            return
        try:
            self.json = self.schema.extract(self.session.last)
        except SchemaMismatch as exc:
            self._mismatch = exc

    def write(self, text: str) -> None:
        """Write the answer or document to `--out`; remember an error."""
        assert self.out is not None
        try:
            self.out.write(text)
        except OSError as exc:
            self._write_error = exc

    @property
    def failure(self) -> Exception | None:
        """The error of the run, the answer or the file; None for a run that the user cancelled."""
        if self.error is not None:
            return None if self.signal and isinstance(self.error, RunCancelled) else self.error
        return self._mismatch or self._write_error

    @property
    def explanation(self) -> Explanation | None:
        failure = self.failure
        if failure is None:
            return None
        if failure is self._write_error and self.out is not None:
            why = self._write_error.strerror or str(self._write_error)
            again = (
                f"the answer is saved; write it again with: {self.resume_command} --out {shlex.quote(self.out.named)}"
            )
            what = f"cannot write {self.out.named!r} (unchanged): {why}"
            return Explanation(ExitCode.FAILED, what, again if self.is_saved else "")
        return explain_error(failure, model=self.session.model)

    @property
    def code(self) -> int:
        if self.signal:
            return 128 + self.signal
        if (told := self.explanation) is not None:
            return int(told.code)
        if self.session.pending or self.denied:
            return int(ExitCode.APPROVAL)
        last = self.session.last if self.has_answer and not self.is_earlier_answer else None
        return int(_STOP_CODES.get(last.stop_reason or "", ExitCode.OK) if last is not None else ExitCode.OK)

    @property
    def has_answer(self) -> bool:
        return self.session.status == "completed" and self.error is None

    @property
    def answer(self) -> str:
        """The text of the answer; empty without one."""
        return (self.json or answer_text(self.session.last)) if self.has_answer else ""

    @property
    def is_saved(self) -> bool:
        """Whether the session can be resumed later."""
        place = self.options.store or ""
        gone = self.options.ephemeral or ("store" in self._explicit and place.startswith("memory:"))
        return not gone and self.session.status != "new"

    @property
    def resume_command(self) -> str:
        """The command that resumes the session, with user tools and options; passwords are hidden."""
        options, words = self.options, ["tenuto", "resume", short_id(self.session.id)]
        for name in options.tool:
            words += ["-T", shlex.quote(name)] if ":" in name else []
        if "root" in self._explicit:
            words += ["--root", shlex.quote(options.root)]
        if "store" in self._explicit and (place := options.store):
            words += ["--store", "..." if "://" in place and "@" in place else shlex.quote(place)]
        return " ".join(words)

    @property
    def _explicit(self) -> frozenset[str]:
        return self.options.explicit


async def report_result(result: RunResult, display: Display, *, is_chat: bool = False) -> int:
    """Print the result of a run, and unless in a chat how to resume; return the exit code."""
    result.validate()
    try:
        await _print_result(result, display)
    except OSError as exc:  # stdout cannot be written
        if result.is_saved:
            exc.add_note(f"the answer is saved; print it with: {result.resume_command}")
        raise
    told = result.explanation
    if told is not None:
        display.error(told, result.failure)
    if result.signal:
        display.message("stopped; session saved" if result.is_saved else "stopped")
    for call in result.denied:
        display.message(f"denied: {format_call(call)}")
    report_usage(result, display)
    if result.session.pending:
        command = result.resume_command if result.is_saved and not is_chat else ""
        display.message("\n".join(format_pending(result.session, result.session.pending, command)))
        if not (result.is_saved or is_chat):
            display.message(_NOT_SAVED)
    elif not is_chat:
        _print_hint(result, display)
    return result.code


async def _print_result(result: RunResult, display: Display) -> None:
    if result.jsonl is not None:
        result.jsonl.result(await _result_document(result))
    elif result.options.json:
        _print_document(result, display, jsonio.encode(await _result_document(result)))
    else:
        _print_answer(result, display)
        await _report_losses(result, display)
        report_truncation(result, display)


def _print_document(result: RunResult, display: Display, document: bytes) -> None:
    """Print a JSON document, or write it to `--out`."""
    if result.out is not None:
        result.write(document.decode("utf-8", "backslashreplace") + "\n")
    else:
        display.document(document)


def _print_answer(result: RunResult, display: Display) -> None:
    if result.is_earlier_answer:
        display.info("nothing to do; last answer:" if result.answer else "nothing to do")
    if result.out is not None and result.has_answer:
        result.write(result.answer if result.answer.endswith("\n") else f"{result.answer}\n")
    elif result.json:
        display.document(result.json.encode("utf-8", "surrogatepass"))
    elif result.out is None:
        display.finish(result.answer, streamed=not result.is_earlier_answer and result.schema is None)


async def _report_losses(result: RunResult, display: Display) -> None:
    """Print the new losses of this run: earlier ones recur with every request."""
    reply = result.session.reply
    if result.error is not None or reply is None or not reply.losses:
        return
    before = [entry for entry in await _read_entries(result.session) if entry.seq <= result.head]
    known = {*recorded_losses(before), *result.new_losses}
    if new := [loss for loss in reply.losses if loss not in known]:
        display.info(summarize_losses(new), "yellow")


def report_truncation(result: RunResult, display: Display) -> None:
    """Print why an answer is incomplete."""
    last = result.session.last
    if result.has_answer and last is not None:
        cut = _TRUNCATION.get(last.stop_reason or "") or ("" if result.answer else "the model returned no text")
        if cut:
            display.message(cut, "yellow")


def report_usage(result: RunResult, display: Display) -> None:
    """Print usage if --usage is given, or on a terminal unless --quiet."""
    spent = result.session._log.spent
    cost = None if spent.unpriced else spent.usd
    line = format_usage(spent.usage, cost, result.seconds, result.session.model)
    if result.options.usage:
        display.message(line, "dim")
    elif display.terminal.is_err_live and result.seconds is not None and spent.turns:
        display.info("")
        display.info(line, "dim")


def _print_hint(result: RunResult, display: Display) -> None:
    """Print how to resume; with --quiet only if there is no answer."""
    options = result.options
    if isinstance(result.failure, SessionInUse) or not result.is_saved:  # a session in use has another hint
        return
    if result.code or not (options.quiet or options.json or options.jsonl):
        display.message(f"resume with: {result.resume_command}", "dim")


# --- as a document ----------------------------------------------------------------------------------------------------


async def _result_document(result: RunResult) -> dict[str, Any]:
    session, told = result.session, result.explanation
    entries = await _read_entries(session)
    last = session.last
    shaped = (
        {}
        if result.schema is None
        else {"data": msgspec.Raw(result.json.encode("utf-8", "surrogatepass")) if result.json else None}
    )
    return {
        "session": session.id,
        "status": session.status,
        "waiting_for": session.waiting_for,
        "text": result.answer,
        **shaped,
        "stop_reason": last.stop_reason if last is not None else None,
        "model": session.model,
        "usage": {**dict.fromkeys(_USAGE), **msgspec.to_builtins(session.usage)},
        "cost": None if (cost := total_cost(entries)) is None else float(cost),
        "losses": list(recorded_losses(entries)),
        "pending": [_call_fields(one.call) for one in session.pending],
        "denied": [_call_fields(call) for call in result.denied],
        "error": None
        if told is None
        else {"type": type(result.failure).__name__, "message": told.message, "next": told.hint},
        "exit_code": result.code,
    }


def _call_fields(call: ToolCallView) -> dict[str, str]:
    return {"call": call.id, "name": call.name, "arguments": call.args}


async def _read_entries(session: AsyncSession) -> list[Entry]:
    try:
        return await session.entries()
    except StoreError:  # the error is reported already
        return []


def total_cost(entries: Iterable[Entry]) -> Decimal | None:
    """Return the cost in USD with failed requests and sub-agents; None if a reply has no price."""
    acts = [
        entry.payload
        for entry in entries
        if isinstance(entry.payload, ReplyReceived | RequestFailed | CallFinished | Compacted)
    ]
    if any(isinstance(act, ReplyReceived) and not act.cost for act in acts):
        return None
    return sum((Decimal(act.cost) for act in acts if act.cost), Decimal(0))
