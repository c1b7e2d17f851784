"""Middleware: functions around a call, over its events.

A middleware takes a request and the next handler, and yields events: those of the next handler, or its own. Streamed
and drained calls go the same way; `request.stream` tells which it is. A second `MessageStart` tells whoever reads the
events that the reply began anew and that what came before is void.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import TypeAlias

from tenuto.core.events import Event
from tenuto.core.request import ChatRequest

__all__ = ["Middleware", "Next", "compose"]

Next: TypeAlias = Callable[[ChatRequest], AsyncIterator[Event]]
Middleware: TypeAlias = Callable[[ChatRequest, Next], AsyncIterator[Event]]


def compose(middleware: Iterable[Middleware], handler: Next) -> Next:
    """Put middleware around a handler; the first is the outermost."""
    for layer in reversed(tuple(middleware)):
        handler = partial(_through, layer, handler)
    return handler


def _through(layer: Middleware, handler: Next, request: ChatRequest) -> AsyncIterator[Event]:
    return layer(request, handler)
