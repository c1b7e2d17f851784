"""The output of a run: how the model is asked for it, how it is checked, and what a rejected one is answered with.

There are three ways to ask, by the traits of the model (`client.structured_output.output_mode`): the schema is a parameter of
the request, or that of a tool that ends the run, or a part of the system prompt. A rejected output is sent back with the
reason, as often as the agent's `repairs` allow. All of it is in the journal, so a run continues after a crash.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Literal, TypeAlias

import msgspec

from tenuto.agent.hooks import RunInfo
from tenuto.agent.limits import FINAL_TOOL
from tenuto.client.reply import Reply
from tenuto.client.structured_output import (
    OutputError,
    OutputFormat,
    OutputMode,
    json_text,
    output_mode,
    schema_mismatch,
    unrecoverable_reason,
)
from tenuto.core import jsonio
from tenuto.core.journal import Configured
from tenuto.core.messages import ToolCallView
from tenuto.core.provider import Target
from tenuto.errors import LLMError, ModelRetry, SchemaMismatch
from tenuto.tools.decorator import Tool
from tenuto.tools.execution import ToolContext, call_function
from tenuto.tools.toolbox import Toolbox

_DESCRIPTION = "Give the final answer. Call this once, when the task is done; the arguments are the answer."
_CALL_IT = f"Your answer could not be used: it is not a call of {FINAL_TOOL}. Call {FINAL_TOOL} with the answer."
_ACCEPTED = "The answer was accepted."


Validator: TypeAlias = Callable[[Any], Any] | Callable[[Any, RunInfo[Any]], Any]
"""Checks an output: returns it, changed or not, or None; raises `ModelRetry` or `ValueError` to send it back."""


class OutputSpec(msgspec.Struct, frozen=True):
    """The output that an agent or a caller wants."""

    type: Any = None
    """A type or a JSON Schema; None and `str` are text."""
    validators: tuple[Validator, ...] = ()

    def __post_init__(self) -> None:
        for validator in self.validators:
            if not callable(validator):
                raise TypeError(f"validators: expected functions, got {validator!r:.100}")

    @property
    def is_text(self) -> bool:
        return self.type is None or self.type is str


TEXT = OutputSpec()


class _FinalTool(Tool):
    """The tool that takes the output. `RunOutput.accept` checks the arguments, and reports all problems."""

    def read_arguments(self, call: ToolCallView) -> Mapping[str, Any]:
        return {}


class OutputRejected(ModelRetry):
    """An output does not match its schema, or a validator rejects it."""

    detail: Literal["retry", "output"] = "output"


class RunOutput:
    """The output of one run. `value` is unset until it is accepted."""

    def __init__(self, spec: OutputSpec, config: Configured, info: RunInfo) -> None:
        self._validators = spec.validators
        self._info = info
        self.mode = config.output_mode
        self.value: Any = msgspec.UNSET
        self.problem = OutputRejected("no answer was accepted")
        """Why the last output was rejected."""
        self.error: Exception | None = None
        """An exception of a validator that rejects nothing: it ends the run."""
        self._format: OutputFormat | None = None
        if config.output_mode != "" and config.output_mode != "text":
            self._format = _format_of(spec, config, config.output_mode)
        self.toolbox = Toolbox([self._tool()] if self.mode == "tool" else [])
        """The tool that takes the output, if there is one."""

    def _tool(self) -> Tool:
        async def accept(_arguments: Mapping[str, Any], context: ToolContext) -> str:
            try:
                await self.accept(context.call.args)
            except OutputRejected as exc:
                self.problem = exc
                raise
            except Exception as exc:
                self.error = exc
                raise
            return _ACCEPTED

        return _FinalTool(FINAL_TOOL, _DESCRIPTION, {"type": "object"}, accept, effect="pure")

    def final_call(self, calls: Iterable[ToolCallView]) -> ToolCallView | None:
        """Return the last call that gives the output."""
        found = [call for call in calls if call.name == FINAL_TOOL] if self.mode == "tool" else []
        return found[-1] if found else None

    async def accept(self, text: str) -> None:
        """Take the text of an output as the value. Raise `OutputRejected` with the reason."""
        value: Any = text
        if self._format is not None:
            try:
                value = self._format.parse(text)
            except OutputError as exc:
                raise OutputRejected(exc.short()) from exc
        for validator in self._validators:
            arguments = (value, self._info) if accepts_arguments(validator, 2) else (value,)
            try:
                changed = await call_application(validator, *arguments)
            except ValueError as exc:
                raise OutputRejected(str(exc)) from exc
            except ModelRetry as exc:
                raise OutputRejected(str(exc)) from exc
            value = value if changed is None else changed
        self.value = value

    async def accept_reply(self, reply: Reply) -> None:
        """Take the output of a reply without tool calls as the value. Raise `OutputRejected` with the reason.

        A model may write the JSON as text although it has the tool.
        """
        if self._format is None:
            await self.accept(reply.text)
            return
        try:
            text = json_text(reply)
        except LLMError as exc:
            raise OutputRejected(exc.message) from exc
        await self.accept(text)

    async def read_value(self, reply: Reply) -> Any:
        """Return the value, also of a run that another process has ended; unset if the reply has none."""
        if self.value is msgspec.UNSET:
            call = self.final_call(reply.tool_calls)
            with suppress(OutputRejected):
                await (self.accept(call.args) if call is not None else self.accept_reply(reply))
        return self.value

    def repair_prompt(self, error: OutputRejected) -> str:
        """Return the message that asks for another output."""
        if isinstance(error.__cause__, OutputError) and self._format is not None:
            return _CALL_IT if self.mode == "tool" else self._format.repair_prompt(error.__cause__)
        again = "Call it again with the whole answer." if self.mode == "tool" else "Answer again with the whole answer."
        return f"Your answer could not be used:\n{error}\n\n{again}"

    def mismatch(self, reply: Reply, error: OutputRejected, repairs: int) -> SchemaMismatch:
        """Return the error that ends a run without an output."""
        reason = "" if reply.tool_calls else unrecoverable_reason(reply, str(error))
        return schema_mismatch(reply, OutputError(str(error)), reason, repairs + 1)


def is_unrecoverable(reply: Reply, error: OutputRejected) -> bool:
    """Return whether another request cannot help."""
    return bool(unrecoverable_reason(reply, str(error)))


def add_output(config: Configured, spec: OutputSpec, target: Target, toolbox: Toolbox) -> Configured:
    """Return the configuration with the request for an output.

    Raise `TypeError` for a type that has no schema, `ValueError` if a tool has the name of the tool for the output.
    """
    if spec.is_text:
        mode: Literal["", "text"] = "text" if spec.validators else ""
        return msgspec.structs.replace(config, output_mode=mode, output_schema="", output_request="")
    form = OutputFormat(spec.type, output_mode(target, toolbox.definitions()))
    if form.mode == "tool" and toolbox.get(FINAL_TOOL) is not None:
        raise ValueError(f"the tool {FINAL_TOOL!r} has the name of the tool for the output: rename it")
    if form.mode == "tool":
        request = jsonio.encode({"name": FINAL_TOOL, "description": _DESCRIPTION, "parameters": form.parameters})
    else:
        request = form.prompt.encode() if form.response_format is None else jsonio.encode(form.response_format)
    return msgspec.structs.replace(
        config,
        output_mode=form.mode,
        output_schema=jsonio.encode(form.schema).decode(),
        output_request=request.decode(),
    )


def _format_of(spec: OutputSpec, config: Configured, mode: OutputMode) -> OutputFormat:
    """Return the format that the journal has, with the type of the application if it still has that schema."""
    schema = jsonio.parse(config.output_schema)
    if not spec.is_text:
        form = OutputFormat(spec.type, mode)
        if form.schema == schema:
            return form
    return OutputFormat(schema, mode)


# --- functions of the application -------------------------------------------------------------------------------------


def accepts_arguments(function: Callable[..., Any], count: int) -> bool:
    """Return whether a function can be called with this number of arguments."""
    try:
        inspect.signature(function).bind(*(None,) * count)
    except (TypeError, ValueError):  # ValueError: a builtin without a signature
        return False
    return True


async def call_application(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the application: an `async` one on the loop, any other in a thread."""
    name = getattr(function, "__name__", type(function).__name__)
    return await call_function(partial(function, *arguments), ToolContext(ToolCallView("", name, "{}")))
