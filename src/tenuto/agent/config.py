"""What a session is configured with, as it is kept in its journal; `tenuto.core.next_request` makes questions of it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tenuto.client.messages import PARAMETERS, request_of
from tenuto.core import jsonio
from tenuto.core.journal import Configured
from tenuto.core.request import ChatRequest, ServerTool, ToolDefinition

__all__ = ["check_names", "check_type", "configured", "kept_parameters", "roots_text", "stored_roots", "tool_names"]

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


def kept_parameters(parameters: Mapping[str, object]) -> tuple[str, dict[str, str]]:
    """Return the parameters as JSON text, and apart from them the headers, which are not kept.

    Raise `TypeError` or `ValueError` for an invalid value, as the client does.
    """
    request = request_of("agent/parameters", "-", parameters)
    kept = {
        field.encode_name: getattr(request, field.name)
        for field in msgspec.structs.fields(ChatRequest)
        if field.name not in _NOT_KEPT and getattr(request, field.name) != _default(field)
    }
    return (jsonio.encode(kept).decode() if kept else ""), dict(request.extra_headers)


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def configured(
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
