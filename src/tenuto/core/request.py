"""Chat requests, the same for every dialect."""

from typing import Any, Literal, TypeAlias

import msgspec

from tenuto.core.messages import Message
from tenuto.core.transcript import Transcript

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""The reasoning effort. One that the model does not take becomes the nearest, with a `Loss`."""

CacheTime: TypeAlias = Literal["auto", "auto-1h", "5m", "1h", "off"]
"""The time that a provider caches the prompt, and the place of the marks.

`auto`: the marks that the provider has, for its default time: at the end of the prompt and of the system prompt, or a key
that routes equal prefixes to one cache. `auto-1h`: the same, for an hour if the default time is a few minutes. `5m`, `1h`:
a mark at the end of the prompt, for at least this time.
"""
AUTO_CACHE = ("auto", "auto-1h")
"""The values of `cache` without a loss for a provider that caches by itself."""


class ToolDefinition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool that the caller runs."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    """The JSON Schema of the arguments."""
    strict: bool | None = None
    """Whether the provider must enforce the schema."""
    kind: Literal["function", "custom"] = "function"
    """`custom`: the input is free text instead of JSON."""
    cache: str = ""
    """The time (`5m`, `1h`) to cache the prompt up to this definition; empty: no cache marker."""
    options: dict[str, Any] = {}
    """Fields of the target's dialect, merged into the definition unchanged."""


class ServerTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool that the provider runs."""

    kind: str
    """`web_search`, `web_fetch`, `code_execution`, ...; each dialect writes its own type for it."""
    type: str = ""
    """The dialect's exact type, instead of the one for `kind`."""
    options: dict[str, Any] = {}
    """Fields of the target's dialect, merged into the definition unchanged."""


class NamedTool(msgspec.Struct, frozen=True):
    """A tool choice that forces one tool."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "required", "none"] | NamedTool


class JsonSchema(msgspec.Struct, frozen=True):
    """A response format: JSON that matches a schema."""

    schema: dict[str, Any]
    name: str = "response"
    strict: bool | None = None
    description: str = ""


ResponseFormat: TypeAlias = Literal["text", "json_object"] | JsonSchema


class Thinking(msgspec.Struct, frozen=True):
    """Thinking options in addition to `effort`."""

    mode: Literal["on", "off", "between_tools"] | None = None
    """None: the model's default."""
    budget: int | None = None
    """The number of thinking tokens, for models that take one."""
    show: bool | None = None
    """Whether the reply has a readable summary; None: the provider's default."""


class NativeCompaction(msgspec.Struct, frozen=True, omit_defaults=True):
    """Ask the provider to compact the conversation itself."""

    threshold: int | None = None
    """The number of input tokens above which a reply starts with a summary; None: the reply is only the summary."""
    endpoint: bool = False
    """Whether the request goes to the provider's endpoint for compactions, if it has one."""
    instructions: str = ""
    """The instructions instead of the provider's own."""


class ChatRequest(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One chat request. A field that is None is not sent: the provider decides."""

    model: str
    """The model as `provider/model`."""
    messages: tuple[Message, ...] | Transcript
    tools: tuple[ToolDefinition | ServerTool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    """Whether the model may call several tools in one turn."""
    response_format: ResponseFormat | None = None
    effort: Effort | None = None
    thinking: Thinking | None = None
    max_tokens: int | None = None
    """The maximum number of output tokens."""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: str | tuple[str, ...] | None = None
    """Texts at which the model stops."""
    seed: int | None = None
    n: int | None = None
    """The number of choices."""
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logprobs: bool | None = None
    """Whether the response has the log probabilities of its tokens."""
    top_logprobs: int | None = None
    """The number of alternatives per token with their log probabilities."""
    logit_bias: dict[str, float] | None = None
    user: str | None = None
    """An id of the end user, for the provider's abuse detection."""
    verbosity: str | None = None
    """The length of the answer: `low`, `medium`, `high`."""
    service_tier: str | None = None
    """The provider's own name of a processing tier."""
    modalities: tuple[str, ...] | None = None
    """The kinds of content of the response: `text`, `audio`, `image`."""
    audio: dict[str, Any] | None = None
    """The voice and format of audio in the response."""
    cache: CacheTime | None = None
    cache_diagnosis: bool | str = False
    """Whether the provider explains why it did not read the prompt from its cache. A text is the id of the response whose
    request it compares; with True, the request is only stored for later comparisons."""
    container: str | None = None
    """The id of a container for code execution to use again."""
    store: bool | None = None
    """Whether the provider may store the response."""
    stream: bool = False
    metadata: dict[str, Any] = {}
    """Fields to merge into the body by the name of the provider; an entry without fields is a `Loss`."""
    extra_body: dict[str, Any] = {}
    """Fields merged into the body last, for any provider; they win over others."""
    extra_headers: dict[str, str] = {}
    """Headers added last, for any provider; they win over others."""
    foreign_reasoning: Literal["omit", "note", "inline"] = "omit"
    """The form of another provider's reasoning: none, a note in the next user message, or assistant text."""
    compaction: NativeCompaction | None = None
    omit_blocks: tuple[tuple[int, int], ...] = ()
    """(message index, block index) pairs to leave out of this request."""

    @property
    def transcript(self) -> tuple[Message, ...]:
        return self.messages.messages if isinstance(self.messages, Transcript) else self.messages
