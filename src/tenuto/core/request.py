"""What is asked: one request in one vocabulary, whatever dialect it is sent in."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from tenuto.core.messages import Message
from tenuto.core.transcript import Transcript

__all__ = [
    "CacheTime",
    "ChatRequest",
    "Effort",
    "JsonSchema",
    "NamedTool",
    "ResponseFormat",
    "ServerTool",
    "Thinking",
    "ToolChoice",
    "ToolDefinition",
]

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How hard to think. What a model does not know is mapped to its nearest value, with a `Loss`."""


CacheTime: TypeAlias = Literal["auto", "5m", "1h", "off"]
"""How long a provider keeps the prompt in its cache; `auto` is the provider's default."""


class ToolDefinition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool that the caller runs. `parameters` is a JSON Schema; `kind="custom"` takes free text instead.

    `options` are fields of the target's own dialect, merged into the definition as they stand.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    kind: Literal["function", "custom"] = "function"
    cache: str = ""
    options: dict[str, Any] = {}


class ServerTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool that the provider runs.

    `kind` is `web_search`, `web_fetch`, `code_execution`, ... and is spelt as the target's dialect spells it; `type`
    forces that dialect's exact type. `options` are merged in as they stand.
    """

    kind: str
    type: str = ""
    options: dict[str, Any] = {}


class NamedTool(msgspec.Struct, frozen=True):
    """Force one tool."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "required", "none"] | NamedTool


class JsonSchema(msgspec.Struct, frozen=True):
    """Answer with JSON of this schema."""

    schema: dict[str, Any]
    name: str = "response"
    strict: bool | None = None
    description: str = ""


ResponseFormat: TypeAlias = Literal["text", "json_object"] | JsonSchema


class Thinking(msgspec.Struct, frozen=True):
    """How to think, where `effort` does not say it all.

    `mode` None means the model's own default. `budget` is a number of tokens, for models that take one. `show` asks
    for (or against) a readable summary.
    """

    mode: Literal["on", "off", "between_tools"] | None = None
    budget: int | None = None
    show: bool | None = None


class ChatRequest(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One question. `model` is `provider/model`. None means: not asked for, the provider decides.

    `metadata` maps a provider's name to fields merged into its body; an entry without fields is a `Loss`. `extra_body` and
    `extra_headers` go to whichever provider is asked, last, and win. `foreign_reasoning` says how the reasoning of another
    provider's model is sent: not at all, as a note in the next user message, or as assistant text `[Reasoning: ...]`
    ("inline"). `omit_blocks`: (message index, block index) pairs to leave out of this request.
    """

    model: str
    messages: tuple[Message, ...] | Transcript
    tools: tuple[ToolDefinition | ServerTool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    effort: Effort | None = None
    thinking: Thinking | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: str | tuple[str, ...] | None = None
    seed: int | None = None
    n: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    logit_bias: dict[str, float] | None = None
    user: str | None = None
    verbosity: str | None = None
    service_tier: str | None = None
    modalities: tuple[str, ...] | None = None
    audio: dict[str, Any] | None = None
    cache: CacheTime | None = None
    container: str | None = None
    store: bool | None = None
    stream: bool = False
    metadata: dict[str, Any] = {}
    extra_body: dict[str, Any] = {}
    extra_headers: dict[str, str] = {}
    foreign_reasoning: Literal["omit", "note", "inline"] = "omit"
    omit_blocks: tuple[tuple[int, int], ...] = ()

    @property
    def transcript(self) -> tuple[Message, ...]:
        """The messages, whichever way they were given."""
        return self.messages.messages if isinstance(self.messages, Transcript) else self.messages
