"""Fallback to other models."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterable

import msgspec

from tenuto.client.middleware.base import AnyRequest, Middleware, Next
from tenuto.client.middleware.retry import error_name, retry_events
from tenuto.core.events import StreamEvent
from tenuto.core.request import ChatRequest
from tenuto.errors import LLMError, LossError, MissingKey, UnknownProvider, UnsupportedModel

_HANDLED_ERRORS = (LLMError, LossError, MissingKey, UnknownProvider, UnsupportedModel)
_log = logging.getLogger("tenuto")


def fallback(models: Iterable[str], *, asked_first: bool = True) -> Middleware:
    """Try the model of the chat, then each of these in order, until one answers; raise the error of the last one.

    With `asked_first=False` the models replace that of the request. The next model is tried after any error of a provider
    or connection, and if a key, a provider or a feature is missing; an error in the request itself, or a limit, is raised
    at once. A streamed chat stays with the model whose first content has arrived, as with `retry`.

    Only chats fall back: embeddings and token counts of another model are not comparable.
    """
    if isinstance(models, str):
        raise TypeError(f"fallback takes a list of models: fallback([{models!r}])")
    models = tuple(models)
    if not models:
        raise ValueError("fallback needs at least one model")

    def fall_back(request: ChatRequest, next: Next) -> AsyncIterator[StreamEvent]:
        remaining = deque(models)
        if asked_first:
            remaining = deque([request.model, *(model for model in models if model != request.model)])

        def decide(failed: AnyRequest, error: Exception) -> tuple[AnyRequest, float] | None:
            if not remaining or not isinstance(error, _HANDLED_ERRORS):
                return None
            model = remaining.popleft()
            _log.info("%s failed with %s; trying %s", failed.model, error_name(error), model)
            return msgspec.structs.replace(failed, model=model), 0.0

        request = msgspec.structs.replace(request, model=remaining.popleft())
        return retry_events(request, next, decide, asyncio.sleep)

    return fall_back
