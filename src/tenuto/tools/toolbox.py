"""`Toolbox`: finds the tool of a call, reads the arguments, runs the tool. Every call gets a result.

A call takes two steps, so that a journal can be written between them: `prepare` checks that the call can run, and starts
nothing; `run` runs it.
"""

from __future__ import annotations

import asyncio
import difflib
import functools
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard

import msgspec

from tenuto.core.messages import ToolCallView, ToolResult
from tenuto.core.request import ServerTool, ToolDefinition
from tenuto.errors import ModelRetry
from tenuto.tools.decorator import BadArguments, Effect, Tool, tool
from tenuto.tools.execution import Outcome, ToolContext, call_function, failure, stop_task, to_outcome, to_text

log = logging.getLogger("tenuto")
_MAX_LISTED = 100  # limit for the tools that are listed to a model that called an unknown one


class ToolSource(Protocol):
    """Tools that are known only after a connection is open, such as those of a server."""

    async def open(self) -> Sequence[Tool]:
        """Connect and return the tools."""

    async def close(self) -> None:
        """Disconnect."""


class ToolDispatcher(Protocol):
    """Tools that one object describes and runs.

    Three things are optional. `effect(name)` returns the effect of a tool; the default is `once`. `approval(name)` returns
    whether its calls need approval; by default they do not. If `dispatch` has a second parameter, it receives the
    `ToolContext`.
    """

    def definitions(self) -> Sequence[ToolDefinition | ServerTool]:
        """Return the definitions for the model."""

    async def dispatch(self, call: ToolCallView) -> ToolResult:
        """Run a call."""


AnyTool: TypeAlias = Tool | ServerTool | ToolDispatcher | Callable[..., Any]
"""A member of a toolbox; a plain function becomes a tool."""


class DispatcherTool(Tool):
    """One tool of a dispatcher. The dispatcher reads the arguments itself."""

    def __init__(self, dispatcher: ToolDispatcher, definition: ToolDefinition) -> None:
        dispatch: Callable[..., Any] = dispatcher.dispatch
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = [each for each in inspect.signature(dispatch).parameters.values() if each.kind in positional]

        async def call(_arguments: Mapping[str, Any], context: ToolContext) -> Any:
            return await (dispatch(context.call, context) if len(parameters) > 1 else dispatch(context.call))

        effect, approval = (getattr(dispatcher, option, None) for option in ("effect", "approval"))
        super().__init__(
            definition.name,
            definition.description,
            {"type": "object"},
            call,
            effect=effect(definition.name) if effect else "once",
            approval=approval(definition.name) if approval else False,
        )
        self.dispatcher = dispatcher
        self.definition = definition

    def read_arguments(self, call: ToolCallView) -> Mapping[str, Any]:
        """Return no arguments: the dispatcher receives the call."""
        return {}


class PreparedCall(msgspec.Struct, frozen=True, eq=False):
    """A call that can run: its tool exists and its arguments are valid. Nothing has started."""

    call: ToolCallView
    name: str
    effect: Effect
    timeout: float | None
    needs_approval: bool
    tool: Tool
    arguments: Mapping[str, Any]
    """By name, with the types of the parameters."""


class Toolbox:
    """Tools by name: tools, functions, server tools, dispatchers and other toolboxes.

    The definitions of a dispatcher are read once, here. Raise `ValueError` for two tools of one name and for an invalid
    tool, `TypeError` for anything that is not a tool.
    """

    def __init__(self, tools: Iterable[AnyTool] = ()) -> None:
        self._members: list[Tool | ServerTool] = []
        for member in tools:
            self._add(member)
        self._tools = {member.name: member for member in self._members if isinstance(member, Tool)}
        self.roots = {name: each.root for name, each in self._tools.items() if each.root}
        """The directories of the tools that have one, by the name of the tool."""

    def definitions(self) -> tuple[ToolDefinition | ServerTool, ...]:
        """Return the definitions for the model, in the order of the tools."""
        return tuple(each if isinstance(each, ServerTool) else each.definition for each in self._members)

    def names(self) -> tuple[str, ...]:
        """Return the names of the tools in their order, without server tools."""
        return tuple(self._tools)

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name; None if it is unknown or a server tool."""
        return self._tools.get(name)

    def at_roots(self, roots: Mapping[str, str]) -> Toolbox:
        """Return the toolbox with the tools at these directories; tools without a directory do not change.

        Raise `NotADirectoryError` for a directory that does not exist.
        """
        moved = {name: self._tools[name].at_root(roots[name]) for name in self.roots if name in roots}
        if all(self._tools[name] is each for name, each in moved.items()):
            return self
        return Toolbox(moved.get(_name(member), member) for member in self._members)

    def prepare(self, call: ToolCallView) -> PreparedCall | Outcome:
        """Find the tool of a call and read the arguments; start nothing. Return the outcome if it cannot run."""
        owner = self._tools.get(call.name)
        if owner is None:
            return failure(call, self._unknown(call.name), "unknown-tool")
        try:
            arguments = owner.read_arguments(call)
        except BadArguments as exc:
            return failure(call, str(exc), "arguments")
        approval = owner.needs_approval(arguments)
        return PreparedCall(call, owner.name, owner.effect, owner.timeout, approval, owner, arguments)

    async def run(self, prepared: PreparedCall, context: ToolContext | None = None) -> Outcome:
        """Run a call and return its outcome, also if the tool fails.

        If the task that runs this is cancelled, an `async` tool is cancelled and awaited, a tool in a thread finds
        `cancelled` set in its context, and `CancelledError` is raised. `KeyboardInterrupt` is raised, too.
        """
        call, name, tool = prepared.call, prepared.name, prepared.tool
        context = context or ToolContext(call)
        context.root = tool.root
        task = asyncio.create_task(call_function(functools.partial(tool.call, prepared.arguments, context), context))
        try:
            done, _ = await asyncio.wait({task}, timeout=prepared.timeout)
        except asyncio.CancelledError:
            await stop_task(task, context)
            raise
        partial = "It may have taken effect in part: check before you retry."
        if not done:
            await stop_task(task, context)
            timed_out = f"{name} timed out after {prepared.timeout:g} s"
            if task.done() and not context._in_thread:
                return failure(call, f"{timed_out} and was stopped. {partial}", "timeout")
            text = f"{timed_out} and may still be running. It may or may not have taken effect: check before you retry."
            return Outcome(call.answer(text, is_error=True), "unknown", "timeout")
        context._listener = None
        if task.cancelled():
            return Outcome(call.answer(f"{name} was cancelled. {partial}", is_error=True), "cancelled", "cancelled")
        error = task.exception()
        if error is None:
            return to_outcome(call, task.result(), tool.max_output)
        if isinstance(error, KeyboardInterrupt):
            raise error
        if isinstance(error, ModelRetry):
            return failure(call, str(error), error.detail)
        log.debug("tool %s raised", name, exc_info=error)
        return failure(call, to_text(error), "exception")

    async def dispatch(self, call: ToolCallView) -> ToolResult:
        """Run a call and return its result. Approval is not checked: the caller does that with `prepare`."""
        prepared = self.prepare(call)
        outcome = prepared if isinstance(prepared, Outcome) else await self.run(prepared)
        return outcome.result

    def _add(self, member: Any) -> None:
        if isinstance(member, Tool | ServerTool):
            for other in self._members:
                is_version = (
                    isinstance(other, ServerTool) and isinstance(member, ServerTool) and other.type != member.type
                )
                if _name(other) == _name(member) and not is_version:
                    origins = f"{_origin(other)} and {_origin(member)}"
                    raise ValueError(f"two tools are called {_name(member)!r}: {origins}; rename or remove one")
            self._members.append(member)
        elif isinstance(member, Toolbox):
            for each in member._members:
                self._add(each)
        elif _has_methods(member, "definitions", "dispatch"):
            for definition in member.definitions():
                self._add(definition if isinstance(definition, ServerTool) else DispatcherTool(member, definition))
        elif is_tool_source(member):
            raise TypeError(
                f"{member!r:.200} is a tool source that is not open: pass it to an agent, or pass the tools that its "
                "open() returns"
            )
        elif callable(member):
            self._add(tool(member))
        else:
            raise TypeError(
                f"{member!r:.200} is not a tool: use a function, a Tool, a server tool such as web_search(), or an object "
                "with definitions() and dispatch(call); a definition alone has nothing to run"
            )

    def _unknown(self, name: str) -> str:
        names = sorted(self._tools)
        near = difflib.get_close_matches(name, names, n=3)
        more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
        listed = f"The tools are: {', '.join(names[:_MAX_LISTED])}{more}." if names else "There are no tools."
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        return f"There is no tool {name[:100]!r}, and nothing was run.{hint} {listed}"


def is_tool_source(value: object) -> TypeGuard[ToolSource]:
    """Return True if a value has to be opened before its tools are known."""
    is_tool = isinstance(value, Tool) or _has_methods(value, "definitions", "dispatch")
    return not is_tool and _has_methods(value, "open", "close")


def _has_methods(value: object, *names: str) -> bool:
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in names)


def _name(member: Tool | ServerTool) -> str:
    return member.kind if isinstance(member, ServerTool) else member.name


def _origin(owner: Tool | ServerTool) -> str:
    if isinstance(owner, ServerTool):
        return "a server tool"
    if isinstance(owner, DispatcherTool):
        return f"one of {type(owner.dispatcher).__name__}"
    function = getattr(owner, "__wrapped__", owner.call)
    name = getattr(function, "__qualname__", type(function).__name__)
    return f"{getattr(function, '__module__', None) or 'a function'}.{name}"


#
# The provider runs them, and each dialect writes its own type for them. `options` are fields of the dialect and are sent
# unchanged; `type` sets the exact type, such as a newer version. If a provider has no such tool, it is omitted, and the
# reply has a `Loss`.


def web_search(*, type: str = "", **options: Any) -> ServerTool:
    """Let the model search the web."""
    return ServerTool("web_search", type, options)


def web_fetch(*, type: str = "", **options: Any) -> ServerTool:
    """Let the model read web pages."""
    return ServerTool("web_fetch", type, options)


def code_execution(*, type: str = "", **options: Any) -> ServerTool:
    """Let the model run code on the provider's machines."""
    return ServerTool("code_execution", type, options)
