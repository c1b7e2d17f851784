"""Types of the parameters of a client, and methods that show them.

Static type checkers read `**parameters: Unpack[SomeTypedDict]`. For `help()`, `inspect.signature` and
`typing.get_type_hints`, the decorators here put the fields of the TypedDict in place of `**parameters`. So this module is
without `from __future__ import annotations`: the signatures show these types.
"""

import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from types import FunctionType
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeAlias, TypedDict, TypeVar, get_type_hints

import msgspec

from tenuto.core.messages import Message, ToolResult
from tenuto.core.provider import Dialect
from tenuto.core.request import CacheTime, Effort, ResponseFormat, ServerTool, Thinking, ToolChoice, ToolDefinition
from tenuto.core.transcript import Transcript

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
_FIELD_PATTERN = re.compile(r'^    (\w+): [^\n]+\n    """(.+?)"""$', re.MULTILINE | re.DOTALL)

JsonObject: TypeAlias = Mapping[str, Any]
MessageItem: TypeAlias = str | Message | ToolResult | JsonObject
MessageInput: TypeAlias = MessageItem | Transcript | Iterable[MessageItem]
"""The text of a user message, a message, a dictionary in the form of Chat Completions, or several of them."""

Key: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""An API key, or a function that returns one and is called before each request."""

OnLoss: TypeAlias = Literal["warn", "raise", "keep"]


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts in seconds; None waits without a limit."""

    connect: float | None = 10.0
    """Open a connection."""
    read: float | None = 300.0
    """The longest time without a byte inside a response."""
    event: float | None = 600.0
    """The longest time until a response starts, and between two events of a stream. Keep-alive comments do not count."""
    total: float | None = 3600.0
    """The whole call."""


TimeoutOption: TypeAlias = float | Timeouts | None
"""The total in seconds, or `Timeouts`; None means the timeouts of the client."""


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
    """The time that the provider caches the prompt: `auto`, `auto-1h`, `5m`, `1h`, `off`. An agent uses `auto` unless it is
    None."""
    cache_diagnosis: bool | str | None
    """Whether the provider explains why it did not read the prompt from its cache. A text is the id of the response to compare
    with; an agent takes that of the last reply."""
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
    timeout: TimeoutOption
    """The total in seconds, or `Timeouts`."""


class StructuredParameters(ChatParameters, total=False):
    """The parameters of a chat whose answer is a value."""

    repairs: int
    """The maximum number of answers that are sent back because they do not match."""


# --- signatures -------------------------------------------------------------------------------------------------------


def expand_parameters(*typed_dicts: type) -> Callable[[F], F]:
    """Show the fields of these TypedDicts as keyword parameters of a function that has `**parameters`.

    The docstring of the function gets a list of the fields. The description of a field is the string under it.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        fields = {name: hint for fields in map(get_type_hints, typed_dicts) for name, hint in fields.items()}
        named = [value for value in signature.parameters.values() if value.kind is not value.VAR_KEYWORD]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
            for name, hint in fields.items()
        ]
        _set_signature(function, signature.replace(parameters=[*named, *added]))
        descriptions = _descriptions(typed_dicts)
        lines = [f"    {name}: {descriptions.get(name, '')}".rstrip() for name in fields]
        function.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", "Parameters:", *lines])
        return function

    return decorate


def make_sync(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    """Return a method that runs a coroutine method of `self._async` on `self._background` and waits for its result."""

    @functools.wraps(method, assigned=("__name__", "__doc__", "__annotations__"))
    def run(self: Any, /, *args: P.args, **parameters: P.kwargs) -> R:
        coroutine_method = getattr(self._async, method.__name__)
        result: R = self._background.run(coroutine_method(*args, **parameters))
        return result

    return run


def with_parameters(
    source: Callable[Concatenate[Any, P], Any],
) -> Callable[[Callable[..., R]], Callable[Concatenate[Any, P], R]]:
    """Give a method with `**parameters` the signature and the docstring of another one."""
    return lambda method: functools.update_wrapper(method, source)


def mirror_methods(source: type) -> Callable[[C], C]:
    """Document the methods of a class by the methods of `source` that have the same names.

    A method without docstring gets that of `source`. A method with `**parameters` gets the parameters of `source`, and
    keeps its own return type.
    """

    def decorate(cls: C) -> C:
        for name, method in vars(cls).items():
            original = getattr(source, name, None)
            if not isinstance(method, FunctionType) or not isinstance(original, FunctionType):
                continue
            method.__module__, method.__qualname__ = cls.__module__, f"{cls.__qualname__}.{name}"
            method.__doc__ = method.__doc__ or original.__doc__
            signature = inspect.signature(method)
            if any(value.kind is value.VAR_KEYWORD for value in signature.parameters.values()):
                parameters = list(inspect.signature(original).parameters.values())
                _set_signature(method, signature.replace(parameters=parameters))
        return cls

    return decorate


def _set_signature(function: Any, signature: inspect.Signature) -> None:
    hints = {
        name: value.annotation for name, value in signature.parameters.items() if value.annotation is not value.empty
    }
    function.__signature__ = signature
    function.__annotations__ = {**hints, "return": signature.return_annotation}


def _descriptions(typed_dicts: tuple[type, ...]) -> dict[str, str]:
    """Return the strings under the fields of the modules in which the TypedDicts are; none without source files."""
    descriptions: dict[str, str] = {}
    for module in {inspect.getmodule(typed_dict): None for typed_dict in typed_dicts}:
        try:
            source = inspect.getsource(module) if module is not None else ""
        except OSError:
            continue
        descriptions |= {name: " ".join(text.split()) for name, text in _FIELD_PATTERN.findall(source)}
    return descriptions
