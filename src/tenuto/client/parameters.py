"""Types of the parameters of a chat, and of the options of a provider.

Without `from __future__ import annotations`: the signatures of the client show these types.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

from tenuto.client.options import Timeouts
from tenuto.core.messages import Message, ToolResult
from tenuto.core.provider import Dialect
from tenuto.core.request import CacheTime, Effort, ResponseFormat, ServerTool, Thinking, ToolChoice, ToolDefinition
from tenuto.core.transcript import Transcript

MessageItem: TypeAlias = str | Message | ToolResult | Mapping[str, Any]
MessageInput: TypeAlias = MessageItem | Transcript | Iterable[MessageItem]
"""The text of a user message, a message, a dictionary in the form of Chat Completions, or several of them."""

Key: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""An API key, or a function that returns one and is called before each request."""


class ProviderConfig(TypedDict, total=False):
    """The settings of a provider of the catalog, or of a custom server."""

    api_key: Key
    base_url: str
    dialect: Dialect
    """The API style of a custom server; `openai-chat` by default."""
    headers: dict[str, str]
    """Headers of every request."""


class Dispatcher(Protocol):
    """An object that holds several tools."""

    def definitions(self) -> Iterable[ToolDefinition | ServerTool]:
        """Return the definitions of the tools."""


Tools: TypeAlias = Iterable[object] | Dispatcher
"""Definitions, `@tool` functions, dictionaries in the form of Chat Completions, or a dispatcher. They are checked at run
time: type checkers infer `list[object]` for a list of functions with different parameters.
"""


class ModelParameters(TypedDict, total=False):
    """The parameters of a model. A parameter that is absent or None is not sent: the provider decides."""

    tool_choice: ToolChoice | None
    """Whether the model must call a tool: `auto`, `required`, `none`, or `NamedTool(name)`."""
    parallel_tool_calls: bool | None
    """Whether the model may call several tools in one turn."""
    response_format: ResponseFormat | None
    """The format of the answer: `text`, `json_object` or `JsonSchema(schema)`."""
    effort: Effort | None
    """The reasoning effort. One that the model does not take becomes the nearest, with a `Loss`."""
    thinking: Thinking | None
    """Thinking options in addition to `effort`: mode, token budget, readable summary."""
    max_tokens: int | None
    """The maximum number of output tokens."""
    temperature: float | None
    """The sampling temperature."""
    top_p: float | None
    """The probability mass of the tokens to sample from."""
    top_k: int | None
    """The number of tokens to sample from."""
    stop: str | Iterable[str] | None
    """Texts at which the model stops."""
    seed: int | None
    """The seed for sampling, for providers that have one."""
    frequency_penalty: float | None
    """The penalty for tokens by their number of occurrences so far."""
    presence_penalty: float | None
    """The penalty for tokens that have occurred."""
    logprobs: bool | None
    """Whether the response has the log probabilities of its tokens."""
    top_logprobs: int | None
    """The number of alternatives per token with their log probabilities."""
    logit_bias: dict[str, float] | None
    """Values added to the logits, by token id."""
    user: str | None
    """An id of the end user, for the provider's abuse detection."""
    verbosity: str | None
    """The length of the answer: `low`, `medium`, `high`."""
    service_tier: str | None
    """The provider's own name of a processing tier."""
    modalities: Iterable[str] | None
    """The kinds of content of the response: `text`, `audio`, `image`."""
    audio: dict[str, Any] | None
    """The voice and format of audio in the response."""
    cache: CacheTime | None
    """The time that the provider caches the prompt: `auto`, `5m`, `1h`, `off`."""
    container: str | None
    """The id of a container for code execution to use again."""
    metadata: dict[str, Any] | None
    """Fields to merge into the body by the name of the provider; an entry without fields is a `Loss`."""
    extra_body: dict[str, Any] | None
    """Fields merged into the body last, for any provider; they win over others."""
    extra_headers: dict[str, str] | None
    """Headers added last, for any provider; they win over others."""
    foreign_reasoning: Literal["omit", "note", "inline"] | None
    """The form of another provider's reasoning: none (the default), a note in the next user message, or assistant text."""


class ChatParameters(ModelParameters, total=False):
    """The parameters of a chat in addition to its model and messages."""

    system: str | None
    """The system prompt; it replaces a system message at the start of the messages."""
    tools: Tools | None
    """Tools that the model may call."""
    n: int | None
    """The number of choices."""
    store: bool | None
    """Whether the provider may store the response."""
    timeout: float | Timeouts | None
    """The total in seconds, or `Timeouts`."""
