"""Embeddings in batches, token counts, lists of models in pages. `run` sends one call through the middleware."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import msgspec

from tenuto.client.middleware.base import OperationCall
from tenuto.core.embeddings import EmbedRequest, EmbedResponse
from tenuto.core.provider import ModelInfo, Target, WireRequest
from tenuto.core.request import ChatRequest
from tenuto.errors import ProtocolError
from tenuto.wire import count_tokens as token_counts
from tenuto.wire import embeddings, list_models

Send: TypeAlias = Callable[[Target, WireRequest], Awaitable[bytes]]
"""Send one HTTP request and return the body of the response; raise the typed error of a refusal."""
Perform: TypeAlias = Callable[[OperationCall, Target, Send], Awaitable[object]]
"""Encode a call, send it and decode the response."""
Run: TypeAlias = Callable[[OperationCall, Perform], Awaitable[Any]]
MAX_PAGES = 1_000


async def embed(run: Run, target: Target, request: EmbedRequest, *, concurrent: int = 4) -> EmbedResponse:
    """Embed texts, in as many requests as the provider's limits need, at most `concurrent` at a time.

    The result has one embedding per text, in order. Without texts no request is sent. If a request fails, the others are
    cancelled and its error is raised. Raise `UnsupportedModel` if there are no embeddings.
    """
    target = _with_own_dialect(target)
    remaining = deque(enumerate(embeddings.batches(request, target)))
    parts: dict[int, EmbedResponse] = {}

    async def work() -> None:
        while remaining:
            index, batch = remaining.popleft()
            texts = request.input if isinstance(request.input, str) else batch.texts
            call = OperationCall("embed", request.model, msgspec.structs.replace(request, input=texts))
            try:
                parts[index] = await run(call, partial(_embed_batch, batch))
            except BaseException:
                remaining.clear()  # the other workers start no further batch
                raise

    workers = [asyncio.ensure_future(work()) for _ in range(min(concurrent, len(remaining)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    response = embeddings.joined([parts[index] for index in sorted(parts)], target)
    return msgspec.structs.replace(response, provider=parts[0].provider) if parts else response


async def _embed_batch(batch: embeddings.Batch, call: OperationCall, target: Target, send: Send) -> EmbedResponse:
    assert isinstance(call.request, EmbedRequest)
    target = _with_own_dialect(target)
    batch = batch._replace(texts=call.request.texts)
    wire = embeddings.encode(call.request, target, batch)
    response = embeddings.decode(await send(target, wire), call.request, target, batch)
    return msgspec.structs.replace(response, losses=(*wire.losses, *response.losses))


async def count_tokens(call: OperationCall, target: Target, send: Send) -> int:
    """Return the number of tokens of a chat. Raise `UnsupportedModel` if the provider does not count."""
    assert isinstance(call.request, ChatRequest)
    return token_counts.decode(await send(target, token_counts.encode(call.request, target)), target)


async def models(run: Run, provider: str) -> tuple[ModelInfo, ...]:
    """List all models of a provider. Raise `UnsupportedModel` if it has no list."""
    infos: list[ModelInfo] = []
    page, seen = "", {""}
    while True:
        page_infos, page = await run(OperationCall("models", f"{provider}/", page=page), _list_page)
        infos += page_infos
        if not page:
            return tuple(infos)
        if page in seen or len(seen) >= MAX_PAGES:
            message = f"the list of models does not end: page {len(seen)} leads to {page[:100]!r}"
            raise ProtocolError(message, provider=provider)
        seen.add(page)


async def _list_page(call: OperationCall, target: Target, send: Send) -> tuple[tuple[ModelInfo, ...], str]:
    target = _with_own_dialect(target)
    body = await send(target, list_models.encode(target.provider, call.page))
    return list_models.decode(body, target.provider)


def _with_own_dialect(target: Target) -> Target:
    """Return the target in the dialect of its provider row: embeddings and model lists are below the row's own URL."""
    return msgspec.structs.replace(target, dialect=target.provider.dialect)
