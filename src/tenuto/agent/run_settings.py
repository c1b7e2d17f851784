"""The settings of a single run, its instructions, and the configuration that the journal stores for it."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias

import msgspec

from tenuto.agent.config import RunContext, check_lists, check_names, json_text, stored_parameters, tool_names
from tenuto.agent.hooks import RunInfo
from tenuto.agent.limits import Limits
from tenuto.agent.output import TEXT, OutputSpec, RunOutput, accepts_arguments, add_output, call_application
from tenuto.client.parameters import ModelParameters, TimeoutOption
from tenuto.core import jsonio
from tenuto.core.journal import Configured
from tenuto.core.loss import Loss
from tenuto.core.messages import Message
from tenuto.core.next_request import NextRequest
from tenuto.core.provider import Target
from tenuto.errors import TenutoError
from tenuto.tools.execution import Deps
from tenuto.tools.toolbox import Toolbox, is_tool_source
from tenuto.wire.write import write_request

if TYPE_CHECKING:
    from tenuto.agent.session import AsyncSession

InstructionSource: TypeAlias = (
    str
    | Callable[[], str | Awaitable[str | None] | None]
    | Callable[[RunInfo[Any]], str | Awaitable[str | None] | None]
)
"""A text, or a function that returns one at the start of each run, `async` or not; it may take the `RunInfo`."""


class Instruction(msgspec.Struct, frozen=True):
    """An instruction and its place in the request."""

    source: InstructionSource
    place: Literal["system", "message"] = "system"
    """`system`: in the system prompt. `message`: in a user message after that of the run, so that a change neither
    invalidates the prompt cache nor costs reasoning that is bound to the system prompt."""


Instructions: TypeAlias = InstructionSource | Instruction | Iterable[InstructionSource | Instruction]

OutputForm: TypeAlias = Mapping[str, Any] | UnionType
"""An output type that a type checker cannot name: a JSON Schema, or a union of types."""


class RunParameters(ModelParameters, Generic[Deps], total=False):
    """The settings of one run, and the parameters of its requests. The next run has those of the agent again."""

    key: str
    """A message with the same key is sent once, however often this is called."""
    deps: Deps | None
    """The dependencies of tools, instructions and validators; the session keeps them for its next runs."""
    tools: Iterable[object]
    """The tools of the run: names of the agent's tools, or tools as for an agent."""
    limits: Limits
    """The limits of the run."""
    instructions: Instructions
    """Instructions after those of the agent."""
    timeout: TimeoutOption
    """The time limit of each request, in seconds or as `Timeouts`."""


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one run as values; an empty one is that of the agent."""

    key: str = ""
    deps: Any = None
    tools: tuple[object, ...] | None = None
    limits: Limits | None = None
    instructions: tuple[InstructionSource, ...] = ()
    notes: tuple[InstructionSource, ...] = ()
    """The instructions that are sent as a message."""
    timeout: Any = None
    output: OutputSpec | None = None
    parameters: str = ""
    headers: Mapping[str, str] = {}

    @property
    def is_journalled(self) -> bool:
        """Whether the run needs a configuration of its own."""
        return bool(self.tools is not None or self.limits or self.instructions or self.output or self.parameters)


def read_settings(options: Mapping[str, Any], *, output: Any = None) -> RunSettings:
    """Read the options of one run. Raise `TypeError` or `ValueError` for an unknown option or an invalid value."""
    if not options and output is None:
        return RunSettings()
    check_names(options, RunParameters.__annotations__, "a run")
    rest = {name: value for name, value in options.items() if value is not None}
    own = {
        name: rest.pop(name)
        for name in RunParameters.__annotations__.keys() - ModelParameters.__annotations__
        if name in rest
    }
    limits = own.get("limits")
    if limits is not None and not isinstance(limits, Limits):
        raise TypeError(f"limits: expected Limits, got {type(limits).__name__}")
    check_lists(own, ("tools",))
    if "tools" in own:
        own["tools"] = tuple(own["tools"])
    own["instructions"], own["notes"] = read_instructions(own.get("instructions", ()))
    parameters, headers = stored_parameters(rest)
    spec = None if output is None else OutputSpec(output)
    return RunSettings(output=spec, parameters=parameters, headers=headers, **own)


def read_instructions(value: Instructions) -> tuple[tuple[InstructionSource, ...], tuple[InstructionSource, ...]]:
    """Return the instructions of the system prompt, and those of a message.

    Raise `TypeError` for a value that is neither text nor a function, `ValueError` for an unknown place.
    """
    places: dict[str, list[InstructionSource]] = {"system": [], "message": []}
    items: Any = value
    if isinstance(value, str) or callable(value) or not isinstance(value, Iterable):
        items = (value,)
    for item in items:
        instruction = item if isinstance(item, Instruction) else Instruction(item)
        if not isinstance(instruction.source, str) and not callable(instruction.source):
            raise TypeError(f"instructions: expected texts and functions, got {instruction.source!r:.100}")
        if instruction.place not in places:
            raise ValueError(f"instructions: unknown place {instruction.place!r}: use 'system' or 'message'")
        places[instruction.place].append(instruction.source)
    return tuple(places["system"]), tuple(places["message"])


async def evaluate_instructions(instructions: Iterable[InstructionSource], info: RunInfo[Any]) -> str:
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


async def configure_run(
    session: AsyncSession[Any, Any], settings: RunSettings, *, is_new: bool
) -> tuple[RunContext, tuple[Configured, ...], RunInfo[Any], str]:
    """Return the context of a run, the configurations of the session and of the run, the run itself, and the text of the
    instructions that are sent as a message."""
    context = session._context
    config = session._effective_config(new_run=is_new)
    info = RunInfo(
        session_id=session._log.id,
        agent=session._configured.agent,
        model=config.model,
        resumed=not is_new,
        parent=session._parent.id if session._parent is not None else "",
        deps=await _find_deps(session),
    )
    configs, note = [config], ""
    if is_new:
        if context.notes or settings.notes:
            note = await evaluate_instructions((*context.notes, *settings.notes), info)
        session._run_settings, target = settings, context.client._target(config.model)
        if context.instructions:
            texts = (context.system or "", *context.instructions)
            config = msgspec.structs.replace(config, system=await evaluate_instructions(texts, info))
        if config.output_mode or context.output_spec != TEXT:
            config = add_output(config, context.output_spec, target, context.toolbox)
        configs = [config]
        if settings.is_journalled:
            text = await evaluate_instructions(settings.instructions, info)
            context, config = _apply_settings(context, config, settings, text)
            configs.append(add_output(config, settings.output or context.output_spec, target, context.toolbox))
    elif config.scope == "run":
        settings = session._run_settings
        context = _stored_context(context, config, settings)
    config = configs[-1]
    if config.roots:
        try:
            toolbox = context.toolbox.at_roots(jsonio.parse(config.roots))
        except NotADirectoryError as exc:
            raise TenutoError(
                f"a working directory of the session is gone: {exc}; resume(..., root=...) sets another"
            ) from exc
        context = msgspec.structs.replace(context, toolbox=toolbox)
    context = msgspec.structs.replace(
        context,
        deps=info.deps,
        headers={**context.headers, **settings.headers},
        timeout=context.timeout if settings.timeout is None else settings.timeout,
        output=make_output(session, config, info) if config.output_mode else None,
    )
    session._set_limits(context)
    return context, (*configs,), info, note


def make_output(session: AsyncSession[Any, Any], config: Configured | None, info: RunInfo[Any]) -> RunOutput | None:
    if config is None or not config.output_mode:
        return None
    return RunOutput(session._run_settings.output or session._context.output_spec, config, info)


async def _find_deps(session: AsyncSession[Any, Any]) -> Any:
    """Return the dependencies of a run: those that were passed, those of the factory, or those of the calling session."""
    context, deps = session._context, session._deps
    if deps is None and context.deps_factory is not None:
        deps = session._deps = await call_application(context.deps_factory, session)
    if deps is None and session._parent is not None:
        return await _find_deps(session._parent)
    if deps is None and context.deps_type not in (None, type(None)):
        name = getattr(context.deps_type, "__name__", context.deps_type)
        raise TypeError(
            f"the agent needs dependencies of the type {name}: pass deps=, or create the agent with deps_factory="
        )
    return deps


def _apply_settings(
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


def missing_tools(session: AsyncSession[Any, Any], config: Configured) -> set[str]:
    """Return the names of the tools of a configuration that neither the agent nor the last run of this object has."""
    tools = (*session._context.toolbox.names(), *_own_tools(session._run_settings).names())
    return tool_names(config) - {*tools}


def _stored_context(context: RunContext, config: Configured, settings: RunSettings) -> RunContext:
    """Return the context of a run that continues, with the tools and limits that its configuration stores.

    `settings` are those of the last run in this process, which has the tools that the agent does not have.
    """
    own, names = _own_tools(settings), tool_names(config)
    tools = [own.get(name) or context.toolbox.get(name) for name in (*own.names(), *context.toolbox.names())]
    toolbox = Toolbox({tool.name: tool for tool in tools if tool is not None and tool.name in names}.values())
    limits = Limits(**jsonio.parse(config.limits)) if config.limits else context.limits
    return msgspec.structs.replace(context, toolbox=toolbox, limits=limits)


def _own_tools(settings: RunSettings) -> Toolbox:
    """Return the tools that a run has in addition to those of the agent."""
    members: list[Any] = [tool for tool in settings.tools or () if not isinstance(tool, str)]
    return Toolbox(members)


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
