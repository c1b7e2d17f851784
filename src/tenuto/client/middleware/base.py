"""The middleware pipeline. A middleware takes a request and the next handler, and yields events: the next handler's or
its own.

A second `MessageStart` means that the reply starts again and the events before it are void. `embed`, `count_tokens` and
`models` take the same pipeline if a middleware is marked with `handles`: each HTTP request is one `OperationCall` with
one `OperationDone`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, get_args

import msgspec

from tenuto.core.embeddings import EmbedRequest, EmbedResponse
from tenuto.core.events import StreamEvent
from tenuto.core.messages import Usage
from tenuto.core.request import ChatRequest

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
