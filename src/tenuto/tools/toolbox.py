"""`Toolbox`: the dispatcher. It looks a call up, reads its arguments, runs the tool, and always has a result.

A call goes two steps, so that whoever keeps a journal can write between them: `prepare` says whether it can be run at
all, and begins nothing; `run` runs it.
"""

from __future__ import annotations

import copy
import difflib
import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard

import msgspec

from tenuto.core.messages import ToolCallView, ToolResult
from tenuto.core.request import ServerTool, ToolDefinition
from tenuto.tools.arguments import BadArguments, parse_arguments
from tenuto.tools.decorator import MAX_OUTPUT, Effect, Tool, check_name, tool
from tenuto.tools.execution import (
    Detail,
    ExecutionResult,
    Outcome,
    ThreadSlot,
    ToolContext,
    ToolRefused,
    call_function,
    failure,
    run_tool,
)
from tenuto.tools.results import to_outcome, to_text

__all__ = ["PreparedCall", "ToolDispatcher", "Toolbox"]

log = logging.getLogger("tenuto")
_LISTED = 100
"""How many tools are named to a model that asked for one that is not there."""


class ToolDispatcher(Protocol):
    """What an agent needs of somebody's own dispatcher: what there is, and a result for each call."""

    def definitions(self) -> Sequence[ToolDefinition | ServerTool]:
        """What the model is told of the tools."""

    async def dispatch(self, call: ToolCallView) -> ToolResult:
        """Run a call."""


AnyTool: TypeAlias = Tool[..., Any] | ServerTool | ToolDispatcher | Callable[..., Any]
"""What a toolbox is made of; a plain function becomes a tool."""


class PreparedCall(msgspec.Struct, frozen=True, eq=False):
    """A call that can be run: the tool was found, and the arguments fit. Nothing has begun.

    `tool` is what runs it: a `Tool`, with `arguments` of its parameters' types, or somebody's own dispatcher.
    """

    call: ToolCallView
    name: str
    effect: Effect
    timeout: float | None
    needs_approval: bool
    tool: Any
    arguments: Mapping[str, Any]


class Toolbox:
    """Tools by name: functions, tools, tools that a provider runs, and the tools of other dispatchers.

    A dispatcher is asked for its definitions once, here. Of its tools nothing is known: their effect is `once`, and they
    need no approval. Raise `ValueError` for two tools of one name, and for a name that providers refuse; `TypeError` for
    what is no tool.
    """

    def __init__(self, tools: Iterable[AnyTool] = ()) -> None:
        self._definitions: list[ToolDefinition | ServerTool] = []
        self.owners: dict[str, Tool[..., Any] | ToolDispatcher] = {}
        self._served: dict[tuple[str, str], ServerTool] = {}
        for given in tools:
            self._add(given)

    def definitions(self) -> tuple[ToolDefinition | ServerTool, ...]:
        """What the model is told, in the order given."""
        return tuple(self._definitions)

    def names(self) -> tuple[str, ...]:
        """The names of the tools that are run here, in the order given; not those that a provider runs."""
        return tuple(self.owners)

    def get(self, name: str) -> Tool[..., Any] | ToolDispatcher | None:
        """Return what runs the calls of this name; None if nothing does."""
        return self.owners.get(name)

    def roots(self) -> dict[str, str]:
        """Return the directories of the tools that work in one, by the name of the tool."""
        return {name: owner.root for name, owner in self.owners.items() if isinstance(owner, Tool) and owner.root}

    def at_roots(self, roots: Mapping[str, str]) -> Toolbox:
        """Return the toolbox with tools that work in these directories; other tools stay as they are.

        Raise `NotADirectoryError` for a directory that does not exist.
        """
        moved = {
            name: owner.at_root(roots[name])
            for name, owner in self.owners.items()
            if isinstance(owner, Tool) and owner.root and name in roots
        }
        if all(self.owners[name] is owner for name, owner in moved.items()):
            return self
        other = copy.copy(self)
        other.owners = {**self.owners, **moved}
        return other

    def prepare(self, call: ToolCallView) -> PreparedCall | ToolRefused:
        """Look a call up and read its arguments; nothing is begun."""
        owner = self.owners.get(call.name)
        if owner is None:
            return _refused(call, self._unknown(call.name), "unknown-tool")
        if not isinstance(owner, Tool):
            return PreparedCall(call, call.name, "once", None, False, owner, {})
        arguments = _read(call, owner)
        if isinstance(arguments, str):
            return _refused(call, arguments, "arguments")
        approval = owner.needs_approval(arguments)
        return PreparedCall(call, owner.name, owner.effect, owner.timeout, approval, owner, arguments)

    async def run(self, prepared: PreparedCall, context: ToolContext | None = None) -> Outcome:
        """Run a call, and return what became of it, whatever it was.

        When the task that runs this is cancelled, so is an `async` tool, and it is waited for; one in a thread finds
        `cancelled` set in its context; `CancelledError` goes on. A `KeyboardInterrupt` goes on, too.
        """
        context = context or ToolContext(prepared.call)
        ended = await run_tool(functools.partial(_worked, prepared, context), context, prepared.timeout)
        return _describe_error(prepared, ended)

    async def dispatch(self, call: ToolCallView) -> ToolResult:
        """Run a call by hand; always a result. Whether it needs approval is for the caller to ask, by `prepare`."""
        prepared = self.prepare(call)
        if isinstance(prepared, ToolRefused):
            return prepared.result
        return (await self.run(prepared)).result

    # --- filling ------------------------------------------------------------------------------------------------------

    def _add(self, given: AnyTool) -> None:
        if isinstance(given, Tool):
            self._own(given.definition, given)
        elif isinstance(given, ServerTool):
            self._serve(given)
        elif isinstance(given, Toolbox):
            for definition in given.definitions():  # its tools keep what is known of them
                self._join(definition, given.get(getattr(definition, "name", "")))
        elif _is_dispatcher(given):
            for definition in given.definitions():
                self._join(definition, given)
        elif callable(given):
            self._add(tool(given))
        else:
            raise TypeError(
                f"{given!r:.200} is no tool: give a function, a Tool, a server tool such as web_search(), or an object "
                "with definitions() and dispatch(call); a definition alone has nothing to run"
            )

    def _join(self, definition: ToolDefinition | ServerTool, owner: Tool[..., Any] | ToolDispatcher | None) -> None:
        if isinstance(definition, ServerTool) or owner is None:
            self._serve(definition)
        else:
            self._own(definition, owner)

    def _own(self, definition: ToolDefinition, owner: Tool[..., Any] | ToolDispatcher) -> None:
        name = check_name(definition.name)
        if name in self.owners or any(kind == name for kind, _ in self._served):
            other = self.owners.get(name, "a tool that the provider runs")
            raise ValueError(f"two tools are called {name!r}: {_shown(other)} and {_shown(owner)}; rename one of them")
        self.owners[name] = owner
        self._definitions.append(definition)

    def _serve(self, served: Any) -> None:
        if served.kind in self.owners or (served.kind, served.type) in self._served:
            other = self.owners.get(served.kind, "a tool that the provider runs")
            raise ValueError(f"two tools are called {served.kind!r}: {_shown(other)} and {served!r}; leave one out")
        self._served[served.kind, served.type] = served
        self._definitions.append(served)

    def _unknown(self, name: str) -> str:
        names = sorted(self.owners)
        near = difflib.get_close_matches(name, names, n=3)
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        listed = f"The tools are: {', '.join(names[:_LISTED])}{more}." if names else "There are no tools."
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        return f"There is no tool {name[:100]!r}, and nothing was run.{meant} {listed}"


def _is_dispatcher(given: object) -> TypeGuard[ToolDispatcher]:
    found = [getattr(given, name, None) for name in ("definitions", "dispatch")]
    return not isinstance(given, type) and all(map(callable, found))


def _shown(owner: object) -> str:
    """Name a tool by where it comes from."""
    if isinstance(owner, str):
        return owner
    if isinstance(owner, Tool):
        written = owner.__wrapped__
        name = getattr(written, "__qualname__", type(written).__name__)
        return f"{getattr(written, '__module__', None) or 'a function'}.{name}"
    return f"one of {type(owner).__name__}"


def _read(call: ToolCallView, owner: Tool[..., Any]) -> dict[str, Any] | str:
    """Return the arguments of a call, or say what is wrong with them."""
    name = owner.name
    if call.kind != "function":
        return f"{name} is called with a JSON object of arguments, not as a {call.kind} call. Call it as a function."
    if call.broken:
        return f"The arguments for {name} are not JSON: {call.broken}. Call it again with one JSON object."
    try:
        return parse_arguments(owner.signature, call.args, owner.parameters)
    except BadArguments as exc:
        return f"The arguments for {name} do not fit, and it was not run. {exc}. Correct them and call it again."
    except Exception as exc:  # a type of somebody's own may raise anything while it is made
        log.debug("tool %s: the arguments cannot be read", name, exc_info=True)
        return f"The arguments for {name} cannot be read, and it was not run. {to_text(exc)}"


def _refused(call: ToolCallView, text: str, detail: Detail) -> ToolRefused:
    return ToolRefused(call, call.answer(text, is_error=True), detail)


async def _worked(prepared: PreparedCall, context: ToolContext, lane: ThreadSlot) -> Any:
    owner = prepared.tool
    if not isinstance(owner, Tool):
        return await owner.dispatch(prepared.call)
    filled = dict.fromkeys(owner.signature.contexts, context)
    return await call_function(functools.partial(owner.__wrapped__, **prepared.arguments, **filled), context, lane)


def _describe_error(prepared: PreparedCall, ended: ExecutionResult) -> Outcome:
    call, name = prepared.call, prepared.name
    if ended.how == "returned":
        return to_outcome(call, ended.value, getattr(prepared.tool, "max_output", MAX_OUTPUT))
    if ended.how == "raised" and ended.error is not None:
        if isinstance(ended.error, KeyboardInterrupt):
            raise ended.error
        log.debug("tool %s raised", name, exc_info=ended.error)
        return failure(call, to_text(ended.error), "exception")
    if ended.how == "cancelled":
        said = f"{name} was cancelled before it was through. It may have taken effect in part: check before you retry."
        return Outcome(call.answer(said, is_error=True), "cancelled", "cancelled")
    late = f"{name} timed out after {prepared.timeout:g} s"
    if ended.how == "late":
        return failure(
            call, f"{late} and was stopped. It may have taken effect in part: check before you retry.", "timeout"
        )
    said = f"{late} and may still be running. It may or may not have taken effect: check before you retry."
    return Outcome(call.answer(said, is_error=True), "unknown", "timeout")
