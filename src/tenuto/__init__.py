"""tenuto: one interface to every language model, and transcripts that hold.

The names below are loaded when they are first used: importing the package costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # what type checkers take for true; importing it from `typing` costs more than all the rest here
if TYPE_CHECKING:
    from tenuto.agent.agent import AsyncAgent as AsyncAgent
    from tenuto.agent.limits import Limits as Limits
    from tenuto.agent.sync import Agent as Agent
    from tenuto.catalog import resolve as resolve
    from tenuto.client.client import AsyncClient as AsyncClient
    from tenuto.client.options import Timeouts as Timeouts
    from tenuto.client.reply import Reply as Reply
    from tenuto.client.sync import Client as Client
    from tenuto.core.blocks import Audio as Audio
    from tenuto.core.blocks import Document as Document
    from tenuto.core.blocks import Image as Image
    from tenuto.core.blocks import Reasoning as Reasoning
    from tenuto.core.blocks import Text as Text
    from tenuto.core.blocks import ToolUse as ToolUse
    from tenuto.core.embedding import EmbedRequest as EmbedRequest
    from tenuto.core.embedding import EmbedResponse as EmbedResponse
    from tenuto.core.messages import AssistantMessage as AssistantMessage
    from tenuto.core.messages import Origin as Origin
    from tenuto.core.messages import SystemMessage as SystemMessage
    from tenuto.core.messages import ToolCallView as ToolCallView
    from tenuto.core.messages import ToolResult as ToolResult
    from tenuto.core.messages import ToolResults as ToolResults
    from tenuto.core.messages import Usage as Usage
    from tenuto.core.messages import UserMessage as UserMessage
    from tenuto.core.messages import user as user
    from tenuto.core.provider import Loss as Loss
    from tenuto.core.provider import Provider as Provider
    from tenuto.core.provider import Target as Target
    from tenuto.core.provider import WireRequest as WireRequest
    from tenuto.core.request import ChatRequest as ChatRequest
    from tenuto.core.request import JsonSchema as JsonSchema
    from tenuto.core.request import NamedTool as NamedTool
    from tenuto.core.request import ServerTool as ServerTool
    from tenuto.core.request import Thinking as Thinking
    from tenuto.core.request import ToolDefinition as ToolDefinition
    from tenuto.core.response import ChatResponse as ChatResponse
    from tenuto.core.response import Choice as Choice
    from tenuto.core.transcript import Transcript as Transcript
    from tenuto.errors import LLMError as LLMError
    from tenuto.errors import TenutoError as TenutoError
    from tenuto.oneshot import decode as decode
    from tenuto.oneshot import encode as encode
    from tenuto.tools import tool as tool

__version__ = "0.1.0"

_HOMES = {
    "tenuto.agent.agent": ("AsyncAgent",),
    "tenuto.agent.limits": ("Limits",),
    "tenuto.agent.sync": ("Agent",),
    "tenuto.client.client": ("AsyncClient",),
    "tenuto.client.options": ("Timeouts",),
    "tenuto.client.reply": ("Reply",),
    "tenuto.client.sync": ("Client",),
    "tenuto.core.blocks": ("Audio", "Document", "Image", "Reasoning", "Text", "ToolUse"),
    "tenuto.core.embedding": ("EmbedRequest", "EmbedResponse"),
    "tenuto.core.messages": (
        "AssistantMessage",
        "Origin",
        "SystemMessage",
        "ToolCallView",
        "ToolResult",
        "ToolResults",
        "Usage",
        "UserMessage",
        "user",
    ),
    "tenuto.core.request": ("ChatRequest", "JsonSchema", "NamedTool", "ServerTool", "Thinking", "ToolDefinition"),
    "tenuto.core.response": ("ChatResponse", "Choice"),
    "tenuto.core.provider": ("Loss", "Provider", "Target", "WireRequest"),
    "tenuto.core.transcript": ("Transcript",),
    "tenuto.errors": ("LLMError", "TenutoError"),
    "tenuto.oneshot": ("decode", "encode"),
    "tenuto.catalog": ("resolve",),
    "tenuto.tools": ("tool",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_SPECIFIED = {"AgentLoop": "Client", "AgentLoopConfig": "Client", "AgentBuilder": "Agent", "parse_model": "resolve"}
"""Names of the specifications, and ours."""

__all__ = [
    "Agent",
    "AssistantMessage",
    "AsyncAgent",
    "AsyncClient",
    "Audio",
    "ChatRequest",
    "ChatResponse",
    "Choice",
    "Client",
    "Document",
    "EmbedRequest",
    "EmbedResponse",
    "Image",
    "JsonSchema",
    "LLMError",
    "Limits",
    "Loss",
    "NamedTool",
    "Origin",
    "Provider",
    "Reasoning",
    "Reply",
    "ServerTool",
    "SystemMessage",
    "Target",
    "TenutoError",
    "Text",
    "Thinking",
    "Timeouts",
    "ToolCallView",
    "ToolDefinition",
    "ToolResult",
    "ToolResults",
    "ToolUse",
    "Transcript",
    "Usage",
    "UserMessage",
    "WireRequest",
    "decode",
    "encode",
    "resolve",
    "tool",
    "user",
]


def __getattr__(name: str) -> object:
    """Load a public name from its home."""
    import gc
    import importlib

    home = _HOME.get(name)
    if home is None:
        hint = f": use {_SPECIFIED[name]}" if name in _SPECIFIED else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    looking = gc.isenabled()
    gc.disable()  # loading makes no garbage, and looking for it costs a tenth of the time
    try:
        found: object = getattr(importlib.import_module(home), name)
    finally:
        if looking:
            gc.enable()
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
