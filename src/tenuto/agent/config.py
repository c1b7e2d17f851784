"""What a session is configured with, as it is kept in its journal and as it is asked with.

Everything that a question may carry is kept but for headers, which may hold secrets, and deadlines, which are the
caller's. The tools are kept as the model is told of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from tenuto.client.messages import request_of
from tenuto.core import jsonio
from tenuto.core.journal import Configured, HandedOver
from tenuto.core.messages import Message, SystemMessage
from tenuto.core.request import ChatRequest, ServerTool, ToolDefinition
from tenuto.errors import StoreError

if TYPE_CHECKING:
    pass

__all__ = ["asked_with", "configured", "configured_after", "kept_parameters", "tool_names"]

_NOT_KEPT = frozenset(("model", "messages", "tools", "stream", "extra_headers"))
_NOT_FOR_AGENTS = ("n", "tools", "system", "timeout")


def kept_parameters(parameters: Mapping[str, object]) -> tuple[str, dict[str, str]]:
    """Return the parameters as JSON text, and apart from them the headers, which are not kept.

    Raise `TypeError` or `ValueError` for what is no parameter, as the client does, or none of an agent's.
    """
    for name in _NOT_FOR_AGENTS:
        if name in parameters:
            raise TypeError(f"an agent takes no {name!r} among its parameters")
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
    model: str, system: str, parameters: str, tools: Iterable[ToolDefinition | ServerTool], **rest: str
) -> Configured:
    """Make the entry; `rest` are the agent's name and what was declared of the model."""
    told = list(tools)
    written = jsonio.encode(told).decode() if told else ""
    return Configured(model=model, system=system, parameters=parameters, tools=written, **rest)


def configured_after(kept: Configured | None, act: object) -> Configured | None:
    """Return what a session asks with once this has happened."""
    if isinstance(act, Configured):
        return act
    if isinstance(act, HandedOver) and kept is not None:
        return msgspec.structs.replace(kept, model=act.model)
    return kept


def tool_names(kept: Configured) -> tuple[str, ...]:
    """Return the names of the tools that a session was told of, but for those that the provider runs."""
    told = jsonio.parse(kept.tools) if kept.tools else []
    return tuple(tool["name"] for tool in told if isinstance(tool, Mapping) and isinstance(tool.get("name"), str))


@lru_cache(maxsize=256)
def _read(parameters: str) -> ChatRequest:
    members = jsonio.members(parameters) if parameters else {}
    fields = {field.encode_name: field for field in msgspec.structs.fields(ChatRequest)}
    strange = members.keys() - fields.keys()
    if strange:
        raise StoreError(f"the session asks with {min(strange)!r}, which this version of tenuto does not know")
    values = {fields[name].name: jsonio.typed(raw, fields[name].type) for name, raw in members.items()}
    return msgspec.structs.replace(ChatRequest(model="", messages=()), **values)


def asked_with(
    kept: Configured,
    messages: tuple[Message, ...],
    tools: tuple[ToolDefinition | ServerTool, ...],
    headers: Mapping[str, str],
) -> ChatRequest:
    """Make the question of a turn."""
    first = (SystemMessage(kept.system),) if kept.system else ()
    return msgspec.structs.replace(
        _read(kept.parameters),
        model=kept.model,
        messages=(*first, *messages),
        tools=tools,
        stream=True,
        extra_headers=dict(headers),
    )
