"""The configuration of a session as its journal stores it, and which models an agent accepts."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tenuto import catalog
from tenuto.catalog import find_provider, is_known_provider, provider_for_dialect
from tenuto.client.request import PARAMETERS, build_request
from tenuto.core import jsonio
from tenuto.core.journal import Configured
from tenuto.core.provider import Target
from tenuto.core.request import ChatRequest, ServerTool, ToolDefinition
from tenuto.errors import UnsupportedModel
from tenuto.wire.registry import codec_for

_REMEDY = "; pass allow_unverified=True to use it anyway"
_warned: set[str] = set()
"""The models of which a warning was logged."""

logger = logging.getLogger("tenuto")


def admit(model: str, target: Target, *, allow_unverified: bool, tools: bool) -> None:
    """Raise `UnsupportedModel`, with the reason, if an agent does not accept the model; warn once if it is unknown.

    `model` is the model as the user wrote it; `tools`: whether the agent has tools.
    """
    reason = refusal(target)
    if reason and not allow_unverified:
        raise UnsupportedModel(model, f"{reason}{_REMEDY}")
    warn_unknown(model, target, tools=tools)


def refusal(target: Target) -> str:
    """Return why an agent refuses a model; empty if it accepts it."""
    traits, name = target.traits, target.provider.name
    if "text" not in traits.output_modalities:
        return f"it returns {' and '.join(traits.output_modalities)} only"
    if traits.continuity in catalog.UNSUPPORTED and name in catalog.model_owners(target.model):
        return traits.continuity.removeprefix("no: ")
    home = find_provider(name).dialect if is_known_provider(name) else target.provider.dialect
    if home != target.dialect and codec_for(home).encrypts_reasoning and traits.continuity == "yes":
        use = provider_for_dialect(name, home)
        return f"agents need the Responses API for {name} models{f': use {use}/{target.model}' if use else ''}"
    return ""


def warn_unknown(model: str, target: Target, *, tools: bool) -> None:
    """Log one WARNING for a model that is not in the catalog, or that takes no tools although the agent has some."""
    if model in _warned:
        return
    if not target.traits.continuity:
        _warned.add(model)
        logger.warning("%s is not in the catalog; its reasoning is sent back as received", model)
    elif tools and not target.traits.tools:
        _warned.add(model)
        logger.warning("%s takes no tools; they are not sent", model)


_NOT_STORED = frozenset(("model", "messages", "tools", "stream", "extra_headers", "omit_blocks"))
_NOT_FOR_AGENTS = ("n",)
_HINTS = {
    "max_turns": "limits=Limits(turns=...)",
    "instructions": "system",
    "max_tool_calls": "limits=Limits(tool_calls=...)",
}
"""Names of options in other libraries, and the options here."""


def check_names(options: Iterable[str], known: Iterable[str]) -> None:
    """Raise `TypeError` for an unknown option, with a suggestion. `known` are the options besides request parameters."""
    valid = {*known, *PARAMETERS} - {*_NOT_FOR_AGENTS}
    for name in options:
        if name not in valid:
            near = _HINTS.get(name) or next(iter(difflib.get_close_matches(name, valid, 1)), "")
            raise TypeError(f"unknown option {name!r} of an agent{f': did you mean {near!r}?' if near else ''}")


def check_type(name: str, value: object, expected: type) -> None:
    """Raise `TypeError` unless an option has the expected type."""
    if not isinstance(value, expected):
        raise TypeError(f"{name}: expected {expected.__name__}, got {type(value).__name__}")


def stored_parameters(parameters: Mapping[str, object]) -> tuple[str, dict[str, str]]:
    """Return the parameters as JSON text, and separately the headers, which the journal does not store.

    Raise `TypeError` or `ValueError` for an invalid value, as the client does.
    """
    request = build_request("agent/parameters", "-", parameters)
    stored = {
        field.encode_name: getattr(request, field.name)
        for field in msgspec.structs.fields(ChatRequest)
        if field.name not in _NOT_STORED and getattr(request, field.name) != _default(field)
    }
    return (jsonio.encode(stored).decode() if stored else ""), dict(request.extra_headers)


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def make_config(
    model: str, system: str, parameters: str, tools: Iterable[ToolDefinition | ServerTool], **rest: Any
) -> Configured:
    """Build the entry; `rest` are its other fields."""
    definitions = list(tools)
    tools_text = jsonio.encode(definitions).decode() if definitions else ""
    return Configured(model=model, system=system, parameters=parameters, tools=tools_text, **rest)


def roots_text(roots: Mapping[str, str]) -> str:
    """Return the working directories of tools as the journal stores them."""
    return jsonio.encode(dict(sorted(roots.items()))).decode() if roots else ""


def stored_roots(stored: Configured) -> dict[str, str]:
    """Return the working directories of a session's tools."""
    return dict(jsonio.parse(stored.roots)) if stored.roots else {}


def tool_names(stored: Configured) -> tuple[str, ...]:
    """Return the names of the session's tools, without server tools."""
    tools = jsonio.parse(stored.tools) if stored.tools else []
    return tuple(tool["name"] for tool in tools if isinstance(tool, Mapping) and isinstance(tool.get("name"), str))
