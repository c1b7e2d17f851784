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

__all__ = [
    "admit",
    "check_names",
    "check_type",
    "make_config",
    "refusal",
    "roots_text",
    "stored_parameters",
    "stored_roots",
    "tool_names",
    "warn_unknown",
]

_REMEDY = "; pass allow_unverified=True to use it anyway"
_warned: set[str] = set()

logger = logging.getLogger("tenuto")


def admit(named: str, target: Target, *, allow_unverified: bool, tools: bool) -> None:
    """Raise `UnsupportedModel`, with the reason, if an agent does not accept the model; warn once if it is unknown.

    `named` is the model as the user wrote it; `tools` tells whether the agent has tools.
    """
    reason = refusal(target)
    if reason and not allow_unverified:
        raise UnsupportedModel(named, f"{reason}{_REMEDY}")
    warn_unknown(named, target, tools=tools)


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


def warn_unknown(named: str, target: Target, *, tools: bool) -> None:
    """Log one WARNING for a model that the catalog does not know, or that takes no tools although the agent has some."""
    if named in _warned:
        return
    if not target.traits.continuity:
        _warned.add(named)
        logger.warning("%s is not in the catalog; its reasoning is sent back as received", named)
    elif tools and not target.traits.tools:
        _warned.add(named)
        logger.warning("%s takes no tools; they are not sent", named)


_NOT_KEPT = frozenset(("model", "messages", "tools", "stream", "extra_headers", "omit_blocks"))
_NOT_FOR_AGENTS = ("n",)
_HINTS = {
    "max_turns": "limits=Limits(turns=...)",
    "instructions": "system",
    "max_tool_calls": "limits=Limits(tool_calls=...)",
}
"""What other libraries call our options."""


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
    """Return the parameters as JSON text, and apart from them the headers, which are not kept.

    Raise `TypeError` or `ValueError` for an invalid value, as the client does.
    """
    request = build_request("agent/parameters", "-", parameters)
    kept = {
        field.encode_name: getattr(request, field.name)
        for field in msgspec.structs.fields(ChatRequest)
        if field.name not in _NOT_KEPT and getattr(request, field.name) != _default(field)
    }
    return (jsonio.encode(kept).decode() if kept else ""), dict(request.extra_headers)


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def make_config(
    model: str, system: str, parameters: str, tools: Iterable[ToolDefinition | ServerTool], **rest: Any
) -> Configured:
    """Make the entry; `rest` are its other fields."""
    told = list(tools)
    written = jsonio.encode(told).decode() if told else ""
    return Configured(model=model, system=system, parameters=parameters, tools=written, **rest)


def roots_text(roots: Mapping[str, str]) -> str:
    """Return the working directories of tools as the journal stores them."""
    return jsonio.encode(dict(sorted(roots.items()))).decode() if roots else ""


def stored_roots(stored: Configured) -> dict[str, str]:
    """Return the working directories of a session's tools."""
    return dict(jsonio.parse(stored.roots)) if stored.roots else {}


def tool_names(kept: Configured) -> tuple[str, ...]:
    """Return the names of the tools that a session was told of, but for those that the provider runs."""
    told = jsonio.parse(kept.tools) if kept.tools else []
    return tuple(tool["name"] for tool in told if isinstance(tool, Mapping) and isinstance(tool.get("name"), str))
