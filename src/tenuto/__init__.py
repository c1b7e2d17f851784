"""tenuto: one interface to every LLM provider, and an agent runtime whose transcripts lose nothing.

Public names are loaded on first use, so that `import tenuto` is fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # Type checkers read it as True; importing it from `typing` would take most of the import time.
if TYPE_CHECKING:
    from tenuto.agent.agent import AsyncAgent as AsyncAgent
    from tenuto.agent.compaction import Compaction as Compaction
    from tenuto.agent.hooks import Hooks as Hooks
    from tenuto.agent.limits import Limits as Limits
    from tenuto.agent.machine import PendingCall as PendingCall
    from tenuto.agent.result import Result as Result
    from tenuto.agent.run_stream import AsyncRun as AsyncRun
    from tenuto.agent.session import AsyncSession as AsyncSession
    from tenuto.agent.sync import Agent as Agent
    from tenuto.agent.sync import Run as Run
    from tenuto.agent.sync import Session as Session
    from tenuto.audit.report import Report as Report
    from tenuto.catalog import resolve as resolve
    from tenuto.client.background_loop import Stream as Stream
    from tenuto.client.client import AsyncClient as AsyncClient
    from tenuto.client.parameters import Timeouts as Timeouts
    from tenuto.client.reply import Reply as Reply
    from tenuto.client.stream import AsyncStream as AsyncStream
    from tenuto.client.structured_output import Structured as Structured
    from tenuto.client.sync import Client as Client
    from tenuto.core.blocks import Audio as Audio
    from tenuto.core.blocks import Document as Document
    from tenuto.core.blocks import Image as Image
    from tenuto.core.blocks import Reasoning as Reasoning
    from tenuto.core.blocks import Text as Text
    from tenuto.core.blocks import ToolUse as ToolUse
    from tenuto.core.embeddings import EmbedRequest as EmbedRequest
    from tenuto.core.embeddings import EmbedResponse as EmbedResponse
    from tenuto.core.loss import Location as Location
    from tenuto.core.loss import Loss as Loss
    from tenuto.core.messages import AssistantMessage as AssistantMessage
    from tenuto.core.messages import Origin as Origin
    from tenuto.core.messages import SystemMessage as SystemMessage
    from tenuto.core.messages import ToolCallView as ToolCallView
    from tenuto.core.messages import ToolResult as ToolResult
    from tenuto.core.messages import ToolResults as ToolResults
    from tenuto.core.messages import Usage as Usage
    from tenuto.core.messages import UserMessage as UserMessage
    from tenuto.core.messages import user as user
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
    from tenuto.errors import ModelRetry as ModelRetry
    from tenuto.errors import TenutoError as TenutoError
    from tenuto.oneshot import decode as decode
    from tenuto.oneshot import encode as encode
    from tenuto.reasoning.items import ReasoningItem as ReasoningItem
    from tenuto.tools import Tool as Tool
    from tenuto.tools import ToolContext as ToolContext
    from tenuto.tools import tool as tool

__version__ = "0.1.0"

_NAMES_BY_MODULE = {
    "tenuto.agent.agent": "AsyncAgent",
    "tenuto.agent.compaction": "Compaction",
    "tenuto.agent.hooks": "Hooks",
    "tenuto.agent.limits": "Limits",
    "tenuto.agent.machine": "PendingCall",
    "tenuto.agent.result": "Result",
    "tenuto.agent.run_stream": "AsyncRun",
    "tenuto.agent.session": "AsyncSession",
    "tenuto.agent.sync": "Agent Run Session",
    "tenuto.audit.report": "Report",
    "tenuto.client.client": "AsyncClient",
    "tenuto.client.reply": "Reply",
    "tenuto.client.parameters": "Timeouts",
    "tenuto.client.stream": "AsyncStream",
    "tenuto.client.structured_output": "Structured",
    "tenuto.client.background_loop": "Stream",
    "tenuto.client.sync": "Client",
    "tenuto.core.blocks": "Audio Document Image Reasoning Text ToolUse",
    "tenuto.core.embeddings": "EmbedRequest EmbedResponse",
    "tenuto.core.loss": "Location Loss",
    "tenuto.core.messages": "AssistantMessage Origin SystemMessage ToolCallView ToolResult ToolResults Usage UserMessage user",
    "tenuto.core.provider": "Provider Target WireRequest",
    "tenuto.core.request": "ChatRequest JsonSchema NamedTool ServerTool Thinking ToolDefinition",
    "tenuto.core.response": "ChatResponse Choice",
    "tenuto.core.transcript": "Transcript",
    "tenuto.errors": "LLMError ModelRetry TenutoError",
    "tenuto.oneshot": "decode encode",
    "tenuto.reasoning.items": "ReasoningItem",
    "tenuto.catalog": "resolve",
    "tenuto.tools": "Tool ToolContext tool",
}
"""The same names for use at run time: type checkers need the imports above."""
_MODULES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}
_SPECIFICATION_NAMES = {
    "AgentBuilder": "Agent",
    "AgentLoop": "Client",
    "AgentLoopConfig": "Client",
    "parse_model": "resolve",
}
"""Names of the specifications and the names that replace them."""

__all__ = [name for names in _NAMES_BY_MODULE.values() for name in names.split()]


def __getattr__(name: str) -> object:
    import importlib

    module = _MODULES.get(name)
    if module is None:
        hint = f": use {_SPECIFICATION_NAMES[name]}" if name in _SPECIFICATION_NAMES else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    value: object = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
