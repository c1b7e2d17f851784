"""`--allow` and `--deny`: somebody's word for calls, given beforehand as patterns.

A pattern is `NAME`, every call of the tool, or `NAME(GLOB)`, those whose main argument matches; NAME may be a glob, too.
Denials come first, then what is allowed, then `--approve`. An allowance is read narrowly and a denial widely: where it is
not plain what a call comes to, somebody is asked, or it is not run.

* The main argument is `command` for `shell` and `path` for the tools on files. Any other tool is allowed if all of its
  arguments that are strings match, and denied if one does.
* A command (an argument called `command`, `cmd` or `script` of any tool) is allowed by a GLOB with a wildcard only if the
  shell would do nothing with it but split it into words: no operator, no expansion, no redirection, no second line. It is
  denied if one of the simple commands in it matches.
* A path is allowed if the GLOB matches all of it, from the root folder down; `*` stops at a slash and `**` does not. It is
  denied if the GLOB matches it, a folder above it, or without a slash any name in it; `*` goes on over slashes.

That a command is denied is no wall: a shell has a thousand ways to say the same. Approval is one.
"""

from __future__ import annotations

import copy
import difflib
import functools
import operator
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import click
import msgspec

from tenuto.agent.agent import AsyncAgent
from tenuto.agent.config import Approve
from tenuto.agent.session import AsyncSession
from tenuto.agent.sub_agents import AgentTool
from tenuto.cli.session.approval import ApprovalUnavailable, Approver, create_approver
from tenuto.cli.session.call_patterns import CallPattern
from tenuto.cli.terminal.display import Display
from tenuto.core import jsonio
from tenuto.core.messages import ToolCallView
from tenuto.core.request import ServerTool, ToolDefinition
from tenuto.tools.builtin import BUILTIN
from tenuto.tools.decorator import Tool
from tenuto.tools.execution import ToolContext, call_function
from tenuto.tools.toolbox import AnyTool, DispatcherTool, Toolbox

_FORM = re.compile(r"([A-Za-z0-9_*?\[\]!-]+)(?:\((.+)\))?", re.DOTALL)


class Policy:
    """What is allowed and denied beforehand. Raise `click.UsageError` for a pattern that is none.

    `typed` says which of the two were typed for this run. What is configured is for all runs, and may be about a tool that
    this one does not have.
    """

    def __init__(
        self, allow: Iterable[str] = (), deny: Iterable[str] = (), *, typed: Collection[str] = ("allow", "deny")
    ) -> None:
        self._allow = tuple(_rule("--allow", pattern) for pattern in allow)
        self._deny = tuple(_rule("--deny", pattern) for pattern in deny)
        self._typed = (*(self._allow if "allow" in typed else ()), *(self._deny if "deny" in typed else ()))

    def __bool__(self) -> bool:
        return bool(self._allow or self._deny)

    def decide(self, name: str, arguments: Mapping[str, Any]) -> bool | str | None:
        """Return the word for a call: True if it is allowed, why not if it is denied, None if no pattern says."""
        for rule in self._deny:
            if rule.denies(name, arguments):
                return f"denied by {rule}"
        return True if any(rule.allows(name, arguments) for rule in self._allow) else None

    def wrap_tools(self, tools: Sequence[AnyTool]) -> list[AnyTool]:
        """Return the tools so that the patterns hold for them, in the same order.

        A call that is denied needs somebody's word from now on, also of a tool that needs none otherwise, and `approver`
        denies it; one that is allowed needs none. Sub-agents are given the same patterns with the tools of their own. The
        tools given are not changed. Raise `click.UsageError` for a pattern that was typed of a tool that is not there, and
        for one that denies what a provider runs by itself.
        """
        if not self:
            return list(tools)
        self._refuse_unknown(tools)
        return [self.wrap(given) for given in tools]

    def approver(self, way: str, display: Display) -> Approver | None:
        """Return who decides: the patterns, then what `--approve` says; None if there is neither.

        Where nobody can be asked, `NoWord` is raised for what no pattern allows or denies, and the call waits.
        """
        asked = create_approver(way, display)
        return self.wrap_approver(asked) if self else asked

    def wrap_approver(self, approve: Approve | None) -> Approver:
        """Return who decides by the patterns, and asks `approve` where none says; without it, the call waits."""

        async def decide(call: ToolCallView) -> bool | str:
            word = self.decide(call.name, _arguments(call))
            if word is not None:
                return word
            if approve is None:
                raise ApprovalUnavailable
            said: bool | str = await call_function(functools.partial(approve, call), ToolContext(call))
            return said

        return decide

    # --- tools that are governed ---

    def wrap(self, given: AnyTool) -> AnyTool:
        """Return a tool, or a toolbox, with the patterns over it; it itself if none is about it."""
        if isinstance(given, ServerTool):
            return given
        if isinstance(given, Tool):
            return self._tool(given)
        box = given if isinstance(given, Toolbox) else Toolbox([given])
        before = [one if isinstance(one, ServerTool) else box.get(one.name) for one in box.definitions()]
        after = [self._tool(one) if isinstance(one, Tool) else one for one in before]
        return given if all(map(operator.is_, after, before)) else Toolbox(filter(None, after))

    def _tool(self, given: Tool) -> Tool:
        """Return a copy that asks when the patterns have it so; the tool itself if no pattern is about it."""
        concerned = any(rule.matches_tool(given.name) for rule in (*self._allow, *self._deny))
        if not concerned and not isinstance(given, AgentTool):
            return given
        made = copy.copy(given)
        if isinstance(given, DispatcherTool):
            made.call = self._guarded(given)
        elif concerned:
            made.approval = self._needs(given)
        if isinstance(made, AgentTool):
            made.agent = cast(AsyncAgent, _SubAgent(made.agent, self))
        return made

    def _needs(self, given: Tool) -> Any:
        def needs(**arguments: Any) -> bool:
            word = self.decide(given.name, msgspec.to_builtins(arguments, enc_hook=_path))
            return word is not True and (word is not None or given.needs_approval(arguments))

        return needs

    def _guarded(self, given: DispatcherTool) -> Any:
        """Return the function of a tool whose arguments only its dispatcher reads; it does not run a denied call."""

        async def call(arguments: Mapping[str, Any], context: ToolContext) -> Any:
            word = self.decide(given.name, _arguments(context.call))
            if isinstance(word, str):
                return context.call.answer(f"{given.name} was not run: {word}.", is_error=True)
            return await given.call(arguments, context)

        return call

    # --- patterns that are about nothing ---

    def _refuse_unknown(self, tools: Sequence[AnyTool]) -> None:
        told = list(_told(tools))
        served = {one.kind for one in told if isinstance(one, ServerTool)}
        known = sorted({*BUILTIN, *served, *(one.name for one in told if isinstance(one, ToolDefinition))})
        for rule in self._typed:
            if any(map(rule.matches_tool, known)):
                continue
            near = difflib.get_close_matches(rule.name, known, n=2)
            meant = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
            raise click.UsageError(f"{rule}: there is no tool {rule.name!r}: {meant}")
        for rule in self._deny:
            for kind in filter(rule.matches_tool, served):
                raise click.UsageError(f"{rule}: the provider runs {kind} by itself, and asks nobody: leave it out")


class _SubAgent:
    """An agent that answers calls, with the patterns over its tools and before its own approval."""

    def __init__(self, agent: AsyncAgent, policy: Policy) -> None:
        self._agent = agent
        self._policy = policy
        self.toolbox: Toolbox | None = getattr(agent, "toolbox", None)

    def session(self, id: str = "") -> AsyncSession:
        """Begin a session."""
        return self._agent.session(id)

    async def _open_child(self, parent: AsyncSession, id: str, name: str) -> AsyncSession:
        """Open the session in which a call of another's is answered."""
        child = await self._agent._open_child(parent, id, name)
        toolbox = Toolbox([self._policy.wrap(child._context.toolbox)])
        approve = self._policy.wrap_approver(child._context.approve)
        child._set_context(msgspec.structs.replace(child._context, toolbox=toolbox, approve=approve))
        return child


def _rule(option: str, pattern: str) -> CallPattern:
    found = _FORM.fullmatch(pattern.strip())
    if found is None:
        raise click.UsageError(
            f"{option} {pattern!r} is no pattern: write NAME or NAME(GLOB), as in read_file, 'shell(git *)' or "
            "'write_file(docs/*.md)'"
        )
    try:
        return CallPattern(option, found[1], found[2])
    except ValueError as exc:
        raise click.UsageError(f"{option} {pattern!r}: {exc}") from None


def _arguments(call: ToolCallView) -> Mapping[str, Any]:
    """Return a call's arguments as the tool will be given them; none if they cannot be read, and then it is not run."""
    if call.kind == "custom":  # free text: what it is read as is not known, and a command is what may do most
        return {"command": call.args}
    try:
        found = call.parse()
    except jsonio.JsonError:
        return {}
    return found if isinstance(found, dict) else {}


def _path(value: object) -> str:
    """Spell an argument that is no plain value. What cannot be spelt is no reason to let a call run: somebody is asked."""
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    raise NotImplementedError


def _told(tools: Iterable[AnyTool], above: tuple[object, ...] = ()) -> Iterator[ToolDefinition | ServerTool]:
    """Yield what models are told of tools, and of those that the sub-agents among them have."""
    for given in tools:
        box = Toolbox([given])
        yield from box.definitions()
        for inner in map(box.get, box.names()):
            below = getattr(inner.agent, "toolbox", None) if isinstance(inner, AgentTool) else None
            if isinstance(below, Toolbox) and not any(below is other for other in above):
                yield from _told([below], (*above, below))
