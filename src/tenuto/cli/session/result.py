"""The result of a run: answer, losses, usage, hint for resuming, exit code."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from tenuto.agent.agent import AsyncAgent
from tenuto.agent.session import AsyncSession
from tenuto.cli.errors import ExitCode, Explanation, explain_error
from tenuto.cli.files import OutputFile
from tenuto.cli.options import RunOptions
from tenuto.cli.session.approval import format_pending
from tenuto.cli.session.call_view import format_call
from tenuto.cli.session.events import format_usage
from tenuto.cli.session.jsonl import JsonlWriter
from tenuto.cli.session.open import TOOL_SOURCES
from tenuto.cli.session.tools import is_user_tool
from tenuto.cli.store import short_id
from tenuto.cli.terminal.display import Display
from tenuto.core import jsonio
from tenuto.core.journal import Entry
from tenuto.core.loss import Loss
from tenuto.core.messages import ToolCallView
from tenuto.errors import MissingTool, RunCancelled, SchemaMismatch, SessionInUse, StoreError, TenutoError
from tenuto.wire.loss_report import recorded_losses, summarize_losses

if TYPE_CHECKING:
    from tenuto.cli.session.output_schema import OutputSchema

_INCOMPLETE = {
    "length": (ExitCode.LIMIT, "answer truncated (max tokens)"),
    "content_filter": (ExitCode.FAILED, "answer blocked by the provider"),
}
"""Exit code and notice for an answer that is not complete, by its stop reason."""
_USAGE = (
    "input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "total_tokens",
)  # fmt: skip
"""The keys of `usage` in a document, also if they are unknown."""


@dataclass
class RunResult:
    agent: AsyncAgent
    session: AsyncSession
    options: RunOptions
    out: OutputFile | None = None
    head: int = 0  # the last entry before the run
    signal: int = 0
    error: TenutoError | None = None
    answer_error: TenutoError | None = None  # why the answer does not match its schema, or was not written
    is_earlier_answer: bool = False  # whether nothing was left to do: the answer is from an earlier run
    seconds: float | None = None  # the duration of the run without the time at approval questions
    denied: list[ToolCallView] = field(default_factory=list)
    new_losses: set[Loss] = field(default_factory=set)  # of switches to another model, which are printed at once
    jsonl: JsonlWriter | None = None
    schema: OutputSchema | None = None
    json: str = ""  # the JSON of an answer that matches the schema

    def __post_init__(self) -> None:
        self.head = self.session.head

    @property
    def failure(self) -> TenutoError | None:
        """The error of the run or the answer; None for a run that the user cancelled."""
        is_cancelled = self.signal and isinstance(self.error, RunCancelled)
        return None if is_cancelled else self.error or self.answer_error

    @property
    def explanation(self) -> Explanation | None:
        if self.failure is None:
            return None
        explanation = explain_error(self.failure, model=self.session.model)
        sources = self.session.metadata.get(TOOL_SOURCES, "") if isinstance(self.failure, MissingTool) else ""
        return explanation._replace(hint=f"add -T {' -T '.join(sources.split())}") if sources else explanation

    @property
    def code(self) -> int:
        if self.signal:
            return 128 + self.signal
        if (explanation := self.explanation) is not None:
            return int(explanation.code)
        if self.session.pending or self.denied:
            return int(ExitCode.APPROVAL)
        code, _ = self.incomplete if not self.is_earlier_answer else (ExitCode.OK, "")
        return int(code)

    @property
    def has_answer(self) -> bool:
        return self.session.status == "completed" and self.error is None

    @property
    def answer(self) -> str:
        return (self.json or self.session.text) if self.has_answer else ""

    @property
    def incomplete(self) -> tuple[ExitCode, str]:
        """The exit code and notice of an answer that is not complete; without a notice it is."""
        if not self.has_answer or self.session.last is None:
            return ExitCode.OK, ""
        empty = "" if self.answer else "the model returned no text"
        return _INCOMPLETE.get(self.session.last.stop_reason or "", (ExitCode.OK, empty))

    @property
    def is_saved(self) -> bool:
        """Whether the session can be resumed later."""
        options = self.options
        in_memory = "store" in options.explicit and (options.store or "").startswith("memory:")
        return not (options.ephemeral or in_memory) and self.session.status != "new"

    @property
    def resume_command(self) -> str:
        """The command that resumes the session, with user tools and options; passwords are hidden."""
        options, words = self.options, ["tenuto", "resume", short_id(self.session.id)]
        for name in options.tool:
            words += ["-T", shlex.quote(name)] if is_user_tool(name) else []
        if "root" in options.explicit:
            words += ["--root", shlex.quote(options.root)]
        if "store" in options.explicit and (place := options.store):
            words += ["--store", "..." if "://" in place and "@" in place else shlex.quote(place)]
        return " ".join(words)

    def write(self, text: str) -> None:
        """Write the answer or document to `--out`; remember an error."""
        assert self.out is not None
        try:
            self.out.write(text)
        except OSError as exc:
            error = TenutoError(f"cannot write {self.out.named!r} (unchanged): {exc.strerror or exc}")
            if self.is_saved:
                again = f"{self.resume_command} --out {shlex.quote(self.out.named)}"
                error.add_note(f"the answer is saved; write it again with: {again}")
            self.answer_error = self.answer_error or error


async def report_result(result: RunResult, display: Display, *, is_chat: bool = False) -> int:
    """Print the result of a run, and unless in a chat how to resume; return the exit code."""
    if result.schema is not None and result.has_answer:
        try:
            result.json = result.schema.extract(result.session.last)
        except SchemaMismatch as exc:
            result.answer_error = exc
    try:
        await _print_result(result, display)
    except OSError as exc:  # stdout cannot be written
        if result.is_saved:
            exc.add_note(f"the answer is saved; print it with: {result.resume_command}")
        raise
    if (explanation := result.explanation) is not None:
        display.error(explanation, result.failure)
    if result.signal:
        display.message("stopped; session saved" if result.is_saved else "stopped")
    for call in result.denied:
        display.message(f"denied: {format_call(call)}")
    _report_usage(result, display)
    if result.session.pending:
        command = result.resume_command if result.is_saved and not is_chat else ""
        display.message("\n".join(format_pending(result.session, result.session.pending, command)))
        if not (result.is_saved or is_chat):
            display.message("not saved (--ephemeral); allow such calls up front with --allow")
    elif result.is_saved and not is_chat and not isinstance(result.failure, SessionInUse):  # that has another hint
        options = result.options
        if result.code or not (options.quiet or options.json or options.jsonl):
            display.message(f"resume with: {result.resume_command}", "dim")
    return result.code


async def _print_result(result: RunResult, display: Display) -> None:
    if result.jsonl is not None:
        result.jsonl.result(await _result_document(result))
    elif result.options.json:
        document = jsonio.encode(await _result_document(result))
        if result.out is not None:
            result.write(document.decode("utf-8", "backslashreplace") + "\n")
        else:
            display.document(document)
    else:
        _print_answer(result, display)
        await _report_losses(result, display)
        if notice := result.incomplete[1]:
            display.message(notice, "yellow")


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


def _report_usage(result: RunResult, display: Display) -> None:
    """Print usage if --usage is given, or on a terminal unless --quiet."""
    spent = result.session.run_totals
    cost = None if spent.unpriced else spent.usd
    line = format_usage(spent.usage, cost, result.seconds, result.session.model)
    if result.options.usage:
        display.message(line, "dim")
    elif display.terminal.is_err_live and result.seconds is not None and spent.turns:
        display.info("")
        display.info(line, "dim")


async def _result_document(result: RunResult) -> dict[str, Any]:
    session, explanation = result.session, result.explanation
    error = None
    if explanation is not None:
        error = {"type": type(result.failure).__name__, "message": explanation.message, "next": explanation.hint}
    document = {
        "session": session.id,
        "status": session.status,
        "waiting_for": session.waiting_for,
        "text": result.answer,
        "data": msgspec.Raw(result.json.encode("utf-8", "surrogatepass")) if result.json else None,
        "stop_reason": session.last.stop_reason if session.last is not None else None,
        "model": session.model,
        "usage": {**dict.fromkeys(_USAGE), **msgspec.to_builtins(session.usage)},
        "cost": None if session.cost is None else float(session.cost),
        "losses": list(recorded_losses(await _read_entries(session))),
        "pending": [_call_fields(one.call) for one in session.pending],
        "denied": [_call_fields(call) for call in result.denied],
        "error": error,
        "exit_code": result.code,
    }
    if result.schema is None:
        del document["data"]
    return document


def _call_fields(call: ToolCallView) -> dict[str, str]:
    return {"call": call.id, "name": call.name, "arguments": call.args}


async def _read_entries(session: AsyncSession) -> list[Entry]:
    try:
        return await session.entries()
    except StoreError:  # the error is reported already
        return []
