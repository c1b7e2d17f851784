"""The settings of a single run, its instructions, and the configuration that the journal stores for it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from types import UnionType
from typing import Any, TypeAlias

import msgspec

from tenuto.agent.config import RunContext, json_text, stored_parameters, tool_names
from tenuto.agent.hooks import RunInfo
from tenuto.agent.limits import Limits
from tenuto.agent.output import OutputSpec, accepts_arguments, call_application
from tenuto.client.parameters import ModelParameters, TimeoutOption
from tenuto.core import jsonio
from tenuto.core.journal import Configured
from tenuto.core.loss import Loss
from tenuto.core.messages import Message
from tenuto.core.next_request import NextRequest
from tenuto.core.provider import Target
from tenuto.tools.toolbox import Toolbox, is_tool_source
from tenuto.wire.write import write_request

Instruction: TypeAlias = str | Callable[..., Any]
"""A text, or a function that returns one at the start of each run, `async` or not; it may take the `RunInfo`."""
Instructions: TypeAlias = Instruction | Iterable[Instruction]


OutputForm: TypeAlias = Mapping[str, Any] | UnionType
"""An output type that a type checker cannot name: a JSON Schema, or a union of types."""


class RunParameters(ModelParameters, total=False):
    """The settings of one run, and the parameters of its requests. The next run has those of the agent again."""

    tools: Iterable[object]
    """The tools of the run: names of the agent's tools, or tools as for an agent."""
    limits: Limits
    """The limits of the run."""
    instructions: Instructions
    """Instructions after those of the agent."""
    timeout: TimeoutOption
    """The time limit of each request, in seconds or as `Timeouts`."""


class RunSettings(msgspec.Struct, frozen=True):
    """The settings of one run as values; an empty one is that of the agent."""

    tools: tuple[object, ...] | None = None
    limits: Limits | None = None
    instructions: tuple[Instruction, ...] = ()
    timeout: Any = None
    output: OutputSpec | None = None
    parameters: str = ""
    headers: Mapping[str, str] = {}
    deps: Any = None

    @property
    def is_journalled(self) -> bool:
        """Whether the run needs a configuration of its own."""
        return bool(self.tools is not None or self.limits or self.instructions or self.output or self.parameters)


def read_settings(options: Mapping[str, Any], *, output: Any = None, deps: Any = None) -> RunSettings:
    """Read the options of one run. Raise `TypeError` or `ValueError` for an unknown option or an invalid value."""
    rest = {name: value for name, value in options.items() if value is not None}
    tools, limits = rest.pop("tools", None), rest.pop("limits", None)
    if limits is not None and not isinstance(limits, Limits):
        raise TypeError(f"limits: expected Limits, got {type(limits).__name__}")
    instructions, timeout = read_instructions(rest.pop("instructions", ())), rest.pop("timeout", None)
    parameters, headers = stored_parameters(rest)
    spec = None if output is None else OutputSpec(output)
    return RunSettings(
        None if tools is None else tuple(tools), limits, instructions, timeout, spec, parameters, headers, deps
    )


def read_instructions(value: Instructions) -> tuple[Instruction, ...]:
    """Return instructions as a tuple. Raise `TypeError` for a value that is neither text nor a function."""
    items = (value,) if isinstance(value, str) or callable(value) else tuple(value)
    for item in items:
        if not isinstance(item, str) and not callable(item):
            raise TypeError(f"instructions: expected texts and functions, got {item!r:.100}")
    return items


async def evaluate_instructions(instructions: Iterable[Instruction], info: RunInfo[Any]) -> str:
    """Return the texts of the instructions, one paragraph each. Raise `TypeError` for a function that returns none."""
    texts: list[str] = []
    for item in instructions:
        text: Any = item
        if not isinstance(item, str):
            text = await call_application(item, *((info,) if accepts_arguments(item, 1) else ()))
        if text is not None and not isinstance(text, str):
            raise TypeError(f"instructions: {item!r:.100} returned {text!r:.100}; expected a text or None")
        texts.append(text or "")
    return "\n\n".join(filter(None, texts))


def apply_settings(
    context: RunContext, config: Configured, settings: RunSettings, instructions: str
) -> tuple[RunContext, Configured]:
    """Return the context and the configuration of a run with settings of its own."""
    toolbox = context.toolbox if settings.tools is None else _select_tools(context.toolbox, settings.tools)
    limits = settings.limits or context.limits
    parameters = config.parameters
    if settings.parameters:
        stored = jsonio.members(parameters) if parameters else {}
        parameters = jsonio.object_text({**stored, **jsonio.members(settings.parameters)})
    context = msgspec.structs.replace(context, toolbox=toolbox, limits=limits)
    config = msgspec.structs.replace(
        config,
        scope="run",
        system="\n\n".join(filter(None, (config.system, instructions))),
        tools=json_text(toolbox.definitions()),
        roots=_select_roots(config.roots, toolbox),
        parameters=parameters,
        limits=json_text(settings.limits) if settings.limits is not None else "",
    )
    return context, config


def stored_context(context: RunContext, config: Configured) -> RunContext:
    """Return the context of a run that continues, with the tools and limits that its configuration stores."""
    if config.scope != "run":
        return context
    names, limits = tool_names(config), context.limits
    toolbox = Toolbox(
        [tool for name in context.toolbox.names() if name in names and (tool := context.toolbox.get(name))]
    )
    if config.limits:
        limits = Limits(**jsonio.parse(config.limits))
    return msgspec.structs.replace(context, toolbox=toolbox, limits=limits)


def new_losses(
    state: NextRequest, config: Configured, target: Target, messages: tuple[Message, ...]
) -> tuple[Loss, ...]:
    """Return the reasoning that the model no longer receives if this becomes the configuration, before these messages."""
    if state.configured is None or not target.traits.prefix_bound or not len(state.transcript().messages):
        return ()
    before = {loss.location for loss in _stale_reasoning(state, state.configured, target, messages)}
    return tuple(loss for loss in _stale_reasoning(state, config, target, messages) if loss.location not in before)


def _stale_reasoning(
    state: NextRequest, config: Configured, target: Target, messages: tuple[Message, ...]
) -> list[Loss]:
    state = copy.copy(state)
    state.configured = config
    request = state.request()
    request = msgspec.structs.replace(request, messages=(*request.messages, *messages))
    return [loss for loss in write_request(request, target).losses if loss.kind == "stale-prefix"]


def _select_tools(toolbox: Toolbox, chosen: Iterable[object]) -> Toolbox:
    """Return a toolbox of the tools with these names, and of other tools."""
    members: list[Any] = []
    for item in chosen:
        tool = toolbox.get(item) if isinstance(item, str) else item
        if tool is None:
            raise ValueError(f"the agent has no tool {item!r}; it has {', '.join(toolbox.names()) or 'none'}")
        if is_tool_source(tool):
            raise TypeError("a tool source is an option of the agent: pass the names of its tools")
        members.append(tool)
    return Toolbox(members)


def _select_roots(roots: str, toolbox: Toolbox) -> str:
    stored = jsonio.parse(roots) if roots else {}
    return json_text({name: stored.get(name, root) for name, root in sorted(toolbox.roots.items())})
