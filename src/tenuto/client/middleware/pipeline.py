"""The pipeline of a call: middleware around a handler.

If a middleware changes text deltas, the text of the reply is that of the deltas which leave the middleware.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

import msgspec

from tenuto.client.middleware.base import AnyNext, Middleware, Operation, closing
from tenuto.core.blocks import Refusal, Text
from tenuto.core.events import ContentDelta, ContentDone, ContentStart, MessageDone, MessageStart, TextDelta
from tenuto.core.response import ChatResponse
from tenuto.errors import TenutoError


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
