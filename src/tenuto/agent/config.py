"""The settings of a run, the configuration that the journal stores, and which models an agent accepts."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from tenuto import catalog
from tenuto.client.request import build_request
from tenuto.core import jsonio
from tenuto.core.journal import Configured
from tenuto.core.messages import ToolCallView
from tenuto.core.provider import Target
from tenuto.core.request import ChatRequest, NativeCompaction
from tenuto.errors import UnsupportedModel
from tenuto.wire.codec import codec_for

if TYPE_CHECKING:  # the command loads this module to list models
    from tenuto.agent.compaction import Compaction
    from tenuto.agent.hooks import Hooks
    from tenuto.agent.limits import Limits
    from tenuto.agent.output import OutputSpec, RunOutput
    from tenuto.agent.run_settings import InstructionSource
    from tenuto.agent.session import AsyncSession
    from tenuto.client.client import AsyncClient
    from tenuto.client.middleware.retry import Retry
    from tenuto.client.parameters import Timeouts
    from tenuto.tools.toolbox import Toolbox

warned_models: set[str] = set()
"""The models of which a warning was logged. A program that tells its users itself adds the names before."""

logger = logging.getLogger("tenuto")

Approve: TypeAlias = Callable[[ToolCallView], bool | str | Awaitable[bool | str]]
"""Decides about a call that needs approval: True runs it, False or a reason denies it."""


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    client: AsyncClient
    toolbox: Toolbox
    system: str | None
    """The instructions; None keeps those of a resumed session."""
    retry: Retry
    limits: Limits
    approve: Approve | None = None
    hooks: tuple[Hooks, ...] = ()
    headers: Mapping[str, str] = {}
    timeout: float | Timeouts | None = None
    fallback: tuple[str, ...] = ()
    strict: bool = False
    """Whether a block that its provider refused ends the run, instead of a request without it."""
    compaction: Compaction | None = None
    keep_roots: bool = True
    """Whether tools work in the directories that a session has stored."""
    instructions: tuple[InstructionSource, ...] = ()
    """Instructions after `system` that are evaluated at the start of each run."""
    notes: tuple[InstructionSource, ...] = ()
    """Instructions that are evaluated at the start of each run and sent as a message."""
    output_spec: OutputSpec
    repairs: int = 1
    """How often a rejected output is sent back in one run."""
    deps_type: object = None
    deps_factory: Callable[[AsyncSession[Any, Any]], object] | None = None
    deps: Any = None
    """The dependencies of this run."""
    output: RunOutput | None = None
    """The output of this run; None if any reply ends it."""


# --- models -----------------------------------------------------------------------------------------------------------


def admit(model: str, target: Target, *, allow_unverified: bool, tools: bool) -> None:
    """Raise `UnsupportedModel`, with the reason, if an agent does not accept the model; warn once if it is unknown.

    `model` is the model as the user wrote it; `tools`: whether the agent has tools.
    """
    reason = refusal(target)
    if reason and not allow_unverified:
        raise UnsupportedModel(model, reason, "pass allow_unverified=True to use it anyway")
    warning = "%s takes no tools; they are not sent" if tools and not target.traits.tools else ""
    if not target.traits.continuity:
        warning = "%s is not in the catalog; its reasoning is sent back as received"
    if warning and model not in warned_models:
        warned_models.add(model)
        logger.warning(warning, model)


def refusal(target: Target) -> str:
    """Return why an agent refuses a model; empty if it accepts it."""
    traits, name = target.traits, target.provider.name
    if "text" not in traits.output_modalities:
        return f"it returns {' and '.join(traits.output_modalities)} only"
    if traits.continuity in catalog.UNSUPPORTED and name in catalog.model_owners(target.model):
        return traits.continuity.removeprefix("no: ")
    home = catalog.find_provider(name).dialect if catalog.is_known_provider(name) else target.provider.dialect
    if home != target.dialect and codec_for(home).encrypts_reasoning and traits.continuity == "yes":
        use = catalog.provider_for_dialect(name, home)
        return f"agents need the Responses API for {name} models{f': use {use}/{target.model}' if use else ''}"
    return ""


# --- options and the journal ------------------------------------------------------------------------------------------

_NOT_STORED = frozenset(("model", "messages", "tools", "stream", "extra_headers", "omit_blocks"))
_HINTS = {
    "system": "instructions",
    "max_turns": "limits=Limits(turns=...)",
    "system_prompt": "instructions",
    "output_type": "output",
    "result_type": "output",
    "output_retries": "repairs",
    "max_tool_calls": "limits=Limits(tool_calls=...)",
}
"""Names of options in other libraries, and the options here."""


def check_names(options: Iterable[str], known: Collection[str], owner: str) -> None:
    """Raise `TypeError` for an unknown option of an agent or a run, with a suggestion."""
    for name in options:
        if name not in known:
            near = _HINTS.get(name) or next(iter(difflib.get_close_matches(name, known, 1)), "")
            raise TypeError(f"unknown option {name!r} of {owner}{f': did you mean {near!r}?' if near else ''}")


def check_lists(options: Mapping[str, object], names: Iterable[str]) -> None:
    """Raise `TypeError` for a single value, or a string, where a list is expected."""
    for name in names:
        value = options.get(name, ())
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise TypeError(f"{name}: expected a list, got {type(value).__name__}: write {name}=[...]")


def stored_parameters(
    parameters: Mapping[str, object], compaction: NativeCompaction | None = None
) -> tuple[str, dict[str, str]]:
    """Return the parameters as JSON text, and separately the headers, which the journal does not store.

    `compaction`: the provider compacts in its replies. Raise `TypeError` or `ValueError` for an invalid value, as the client does.
    """
    request = build_request("agent/parameters", "-", parameters)
    defaults = ChatRequest(model=request.model, messages=request.messages)
    stored = {
        field.encode_name: getattr(request, field.name)
        for field in msgspec.structs.fields(ChatRequest)
        if field.name not in _NOT_STORED and getattr(request, field.name) != getattr(defaults, field.name)
    }
    if compaction is not None:
        stored["compaction"] = compaction
    return json_text(stored), dict(request.extra_headers)


def json_text(value: object) -> str:
    """Return tools, parameters or roots as the journal stores them: JSON, or "" for an empty value."""
    return jsonio.encode(value).decode() if value else ""


def tool_names(stored: Configured) -> set[str]:
    """Return the names of the session's tools, without server tools."""
    tools = jsonio.parse(stored.tools) if stored.tools else []
    return {tool["name"] for tool in tools if isinstance(tool, Mapping) and isinstance(tool.get("name"), str)}
