"""The middleware pipeline. A middleware takes a request and the next handler, and yields events: the next handler's or
its own.

A second `MessageStart` means that the reply starts again and the events before it are void. `embed`, `count_tokens` and
`models` take the same pipeline if a middleware is marked with `handles`: each HTTP request is one `OperationCall` with
one `OperationDone`. If a middleware changes text deltas, the text of the reply is that of the deltas which leave the
middleware.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, get_args

import msgspec

from tenuto.core.blocks import Refusal, Text
from tenuto.core.embeddings import EmbedRequest, EmbedResponse
from tenuto.core.events import (
    ContentDelta,
    ContentDone,
    ContentStart,
    MessageDone,
    MessageStart,
    StreamEvent,
    TextDelta,
)
from tenuto.core.messages import Usage
from tenuto.core.request import ChatRequest
from tenuto.core.response import ChatResponse
from tenuto.errors import TenutoError

T = TypeVar("T")
Operation: TypeAlias = Literal["chat", "embed", "count_tokens", "models"]
ALL_OPERATIONS: tuple[Operation, ...] = get_args(Operation)


class OperationCall(msgspec.Struct, frozen=True):
    """One HTTP request that is not a chat."""

    operation: Operation
    model: str
    """The model as `provider/model`; for `models` the provider and a slash."""
    request: EmbedRequest | ChatRequest | None = None
    """The texts of one batch (`embed`), or the chat whose tokens are counted (`count_tokens`)."""
    page: str = ""
    """The page token of `models`; empty for the first page."""
    stream: ClassVar[bool] = False


class OperationDone(msgspec.Struct, frozen=True):
    """The only event of a `OperationCall`."""

    result: object
    """`EmbedResponse`, the number of tokens, or the models of one page and the token of the next page."""

    @property
    def usage(self) -> Usage | None:
        """The tokens of an embedding; None for operations that use none."""
        if not isinstance(self.result, EmbedResponse):
            return None
        usage = self.result.usage
        return Usage(input_tokens=usage.total_tokens or usage.prompt_tokens, output_tokens=0)


Next: TypeAlias = Callable[[ChatRequest], AsyncIterator[StreamEvent]]
Middleware: TypeAlias = Callable[[ChatRequest, Next], AsyncIterator[StreamEvent]]
AnyRequest: TypeAlias = ChatRequest | OperationCall
AnyNext: TypeAlias = Callable[[Any], AsyncIterator[Any]]
"""The next handler of a middleware that handles several operations: it yields `StreamEvent`s for a chat and one
`OperationDone` for a `OperationCall`."""


def handles(*operations: Operation) -> Callable[[T], T]:
    """Mark a middleware function or class with the operations that it receives. Without a mark: only chats."""

    def mark(middleware: T) -> T:
        setattr(middleware, "handled_operations", operations)  # noqa: B010 - T has no such attribute
        return middleware

    return mark


@asynccontextmanager
async def closing(events: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Close an iterator of events at the end, if it has `aclose`: `async with closing(next(request)) as events`."""
    try:
        yield events
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


def split_model(model: str) -> tuple[str, str]:
    """Return the provider and the model of a name; the provider is empty if the name has none."""
    provider, slash, name = model.partition("/")
    return (provider, name) if slash else ("", model)


# --- the pipeline of a call -------------------------------------------------------------------------------------------


def check_middleware(middleware: Iterable[Any]) -> tuple[Middleware, ...]:
    """Return the middleware. Raise `TypeError` for one that cannot work, with its name and the remedy."""
    import inspect  # a client without middleware does not load it

    if not isinstance(middleware, Iterable):
        raise TypeError(f"middleware: expected a list, got {type(middleware).__name__}: write middleware=[...]")
    checked = tuple(middleware)
    for index, layer in enumerate(checked):
        name = getattr(layer, "__name__", None) or type(layer).__name__
        call = layer if inspect.isroutine(layer) else getattr(layer, "__call__", None)  # noqa: B004 - its signature
        remedy = ""
        if isinstance(layer, type) and not hasattr(layer, "__aiter__"):
            remedy = f"it is a class: call it, as in {name.lower()}()"
        elif call is None:
            remedy = f"it is {layer!r:.80}: use a function (request, next) that yields events"
        elif inspect.iscoroutinefunction(call):
            remedy = "it returns one response instead of yielding events: wrap it in response_middleware"
        elif not _takes_two(layer):
            remedy = "it does not take (request, next)"
        if remedy:
            raise TypeError(f"middleware[{index}] {name}: {remedy}")
    return checked


def _takes_two(layer: Callable[..., Any]) -> bool:
    import inspect

    try:
        inspect.signature(layer).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # a function of C without a signature
        return True
    return True


def compose(middleware: Iterable[Middleware], handler: AnyNext, operation: Operation = "chat") -> AnyNext:
    """Put the middleware that handles the operation around a handler; the first is the outermost.

    If a middleware changes the text deltas of a chat, the text of its reply changes, too.
    """
    for layer in reversed(tuple(middleware)):
        if operation not in getattr(layer, "handled_operations", ("chat",)):
            continue
        if operation == "chat" and not getattr(layer, "__module__", "").startswith("tenuto.client."):
            handler = partial(_with_changed_text, layer, handler)
        else:
            handler = partial(lambda layer, next, request: layer(request, next), layer, handler)
    return handler


_Part: TypeAlias = tuple[int, int]
"""The index of the choice and of the part."""


class _Texts:
    """The texts of the parts, as their deltas have them."""

    def __init__(self) -> None:
        self.started: set[_Part] = set()
        self.deltas: defaultdict[_Part, list[str]] = defaultdict(list)
        self.response: ChatResponse | None = None

    def add(self, event: object) -> None:
        if isinstance(event, ContentDelta):
            if isinstance(event.delta, TextDelta):
                self.deltas[event.choice_index, event.part_index].append(event.delta.text)
        elif isinstance(event, ContentStart):
            self.started.add((event.choice_index, event.part_index))
        elif isinstance(event, MessageStart):
            self.started.clear()
            self.deltas.clear()
        elif isinstance(event, MessageDone):
            self.response = event.response

    def text(self, part: _Part) -> str:
        return "".join(self.deltas.get(part, ()))


async def _with_changed_text(middleware: Any, next: AnyNext, request: Any) -> AsyncIterator[Any]:
    """Run a middleware; if it changes text deltas and passes the reply on as it is, change the text of the reply, too.

    A reply that the middleware has made itself stays as it is. So does thinking: its signature is bound to its text.
    """
    received, sent = _Texts(), _Texts()

    async def tap(request: Any) -> AsyncIterator[Any]:
        async with closing(next(request)) as events:
            async for event in events:
                received.add(event)
                yield event

    async with closing(middleware(request, tap)) as events:
        async for event in events:
            sent.add(event)
            if isinstance(event, ContentDone) and isinstance(event.part, Text | Refusal):
                part = event.choice_index, event.part_index
                if event.part.text == received.text(part) != sent.text(part) and part in sent.started:
                    block = msgspec.structs.replace(event.part, text=sent.text(part))
                    yield msgspec.structs.replace(event, part=block)
                    continue
            elif isinstance(event, MessageDone) and event.response is received.response:
                yield msgspec.structs.replace(event, response=_changed_response(event.response, received, sent))
                continue
            yield event


def _changed_response(response: ChatResponse, received: _Texts, sent: _Texts) -> ChatResponse:
    changed = [part for part in sorted(sent.started) if received.text(part) != sent.text(part)]
    if not changed:
        return response
    choices = {choice.index: choice for choice in response.choices}
    for part in changed:
        choice = choices.get(part[0])
        blocks = list(choice.message.blocks) if choice is not None else []
        old = received.text(part)
        matches = [i for i, block in enumerate(blocks) if isinstance(block, Text | Refusal) and block.text == old]
        index = min(matches, key=lambda i: abs(i - part[1]), default=None)
        if choice is not None and index is None and part not in received.started:  # the middleware has added a part
            index = len(blocks)
            blocks.append(Text(""))
        if choice is None or index is None:
            raise TenutoError(
                f"a middleware changed the text of part {part}, which the reply does not have: {old[:80]!r}"
            )
        blocks[index] = msgspec.structs.replace(blocks[index], text=sent.text(part))
        message = msgspec.structs.replace(choice.message, blocks=tuple(blocks))
        choices[part[0]] = msgspec.structs.replace(choice, message=message)
    return msgspec.structs.replace(response, choices=tuple(choices.values()))
