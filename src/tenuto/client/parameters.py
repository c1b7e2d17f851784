"""What can be said to a client, and with a question: the parameters, typed once for both doors.

Read by those who check types: at run time nobody needs these, and making them costs a millisecond.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

from tenuto.client.options import Timeouts
from tenuto.core.provider import Dialect
from tenuto.core.request import CacheTime, Effort, ResponseFormat, ServerTool, Thinking, ToolChoice, ToolDefinition

__all__ = [
    "ChatParameters",
    "Dispatcher",
    "Key",
    "ModelParameters",
    "ProviderConfig",
    "Tools",
]

Key: TypeAlias = "str | Callable[[], str | Awaitable[str]]"
"""A key, or a function that gives one: it is asked before each request."""


class ProviderConfig(TypedDict, total=False):
    """A provider by its settings: those of a row, or of a server of one's own, which speaks the chat dialect unless
    told otherwise.
    """

    api_key: Key
    base_url: str
    dialect: Dialect
    headers: dict[str, str]


class Dispatcher(Protocol):
    """Anything that holds several tools."""

    def definitions(self) -> Iterable[ToolDefinition | ServerTool]:
        """What the model is told of them."""


Tools: TypeAlias = "Iterable[object] | Dispatcher"
"""Definitions, `@tool` functions, plain dictionaries in the OpenAI shape, or a dispatcher. They are checked at run time: type
checkers infer `list[object]` for a list of functions with different parameters.
"""


class ModelParameters(TypedDict, total=False):
    """What may be said of how a model is to answer; `ChatRequest` says what each means."""

    tool_choice: ToolChoice | None
    parallel_tool_calls: bool | None
    response_format: ResponseFormat | None
    effort: Effort | None
    thinking: Thinking | None
    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    stop: str | Iterable[str] | None
    seed: int | None
    frequency_penalty: float | None
    presence_penalty: float | None
    logprobs: bool | None
    top_logprobs: int | None
    logit_bias: dict[str, float] | None
    user: str | None
    verbosity: str | None
    service_tier: str | None
    modalities: Iterable[str] | None
    audio: dict[str, Any] | None
    cache: CacheTime | None
    container: str | None
    metadata: dict[str, Any]
    extra_body: dict[str, Any]
    extra_headers: dict[str, str]
    foreign_reasoning: Literal["omit", "note", "inline"]


class ChatParameters(ModelParameters, total=False):
    """Everything a question may carry besides its model and messages; `ChatRequest` says what each means.

    `system` stands before the messages, in place of a system message they begin with. `timeout` is a total in seconds,
    or `Timeouts`.
    """

    system: str | None
    tools: Tools | None
    n: int | None
    store: bool | None
    timeout: float | Timeouts | None
