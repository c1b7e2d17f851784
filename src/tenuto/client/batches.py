"""Calls that take several requests: embeddings in batches, lists of models in pages. What is sent, and how often.

Whoever calls passes `send`, which sends one request, raises the typed error of a refusal, and returns the body.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

import msgspec

from tenuto.core.embedding import EmbedRequest, EmbedResponse
from tenuto.core.provider import ModelInfo, Target, WireRequest
from tenuto.errors import ProtocolError
from tenuto.wire import embeddings, list_models

__all__ = ["Send", "embed", "models"]

Send: TypeAlias = Callable[[Target, WireRequest], Awaitable[bytes]]
MOST_PAGES = 1_000


async def embed(send: Send, target: Target, request: EmbedRequest, *, concurrent: int = 4) -> EmbedResponse:
    """Embed texts, in as many requests as the provider's limits ask for, at most `concurrent` at a time.

    One embedding for each text, in order; no texts are no request. If one request fails, the others are cancelled and
    its error is raised. Raise `UnsupportedModel` where there are no embeddings.
    """
    if concurrent < 1:
        raise ValueError(f"concurrent is {concurrent}: at least one request has to be under way")
    target = _home(target)
    left = deque(enumerate(embeddings.batches(request, target)))
    parts: dict[int, EmbedResponse] = {}

    async def work() -> None:
        while left:
            at, batch = left.popleft()
            try:
                wire = embeddings.encode(request, target, batch)
                read = embeddings.decode(await send(target, wire), request, target, batch)
            except BaseException:
                left.clear()  # nobody begins another: the whole has failed
                raise
            parts[at] = msgspec.structs.replace(read, losses=(*wire.losses, *read.losses))

    await _together([work() for _ in range(min(concurrent, len(left)))])
    return embeddings.joined([parts[at] for at in sorted(parts)], target)


async def models(send: Send, target: Target) -> tuple[ModelInfo, ...]:
    """List a provider's models, all pages of them. Raise `UnsupportedModel` where there is no list."""
    target = _home(target)
    found: list[ModelInfo] = []
    page, seen = "", {""}
    while True:
        body = await send(target, list_models.encode(target.provider, page))
        listed, page = list_models.decode(body, target.provider)
        found += listed
        if not page:
            return tuple(found)
        if page in seen or len(seen) >= MOST_PAGES:
            message = f"the list of models does not end: page {len(seen)} leads to {page[:100]!r}"
            raise ProtocolError(message, provider=target.provider.name, frame=body)
        seen.add(page)


def _home(target: Target) -> Target:
    """Return the target in its row's own dialect: what is no chat is below the row's own address."""
    return msgspec.structs.replace(target, dialect=target.provider.dialect)


async def _together(acts: Iterable[Awaitable[None]]) -> None:
    """Await them all; the first that fails, or being cancelled, cancels the others, and waits until they are."""
    tasks = [asyncio.ensure_future(act) for act in acts]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
