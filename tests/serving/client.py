"""A client for the server of these tests, and a comparison of its replies."""

from __future__ import annotations

from typing import Any

from serving import replies
from tenuto import AsyncClient, Provider
from tenuto.client.parameters import Timeouts
from tenuto.core.blocks import Reasoning, ToolUse
from tenuto.core.provider import Dialect
from tenuto.core.response import ChatResponse

QUICK = Timeouts(connect=10, read=10, event=10, total=20)
"""Deadlines that a passing test never reaches."""


def row(url: str, dialect: Dialect = "openai-chat", name: str = "mine", **fields: Any) -> Provider:
    """Return a provider at the server, without a key."""
    return Provider(name, dialect, url + replies.BASES[dialect], **{"auth": "none", **fields})


def client(url: str, dialect: Dialect = "openai-chat", **options: Any) -> AsyncClient:
    """Return a client with the server as the provider `mine`, by default without middleware."""
    return AsyncClient(providers=[row(url, dialect)], **{"middleware": [], "timeout": QUICK, **options})


async def ask(ai: AsyncClient, *, stream: bool, model: str = "mine/m", **parameters: Any) -> ChatResponse:
    """Send a request with or without streaming; return the response."""
    if not stream:
        return (await ai.chat(model, "Hi", **parameters)).response
    async with ai.stream(model, "Hi", **parameters) as events:
        async for _ in events:
            pass
        return events.reply.response


def is_part_of(partial: ChatResponse, whole: ChatResponse) -> bool:
    """Return whether a partial reply is the beginning of the whole one and is marked as unfinished.

    A block that was still open has no token; a block that was not started is missing.
    """
    if not partial.choices:
        return True
    found, wanted = partial.message.blocks, whole.message.blocks
    if not partial.message.incomplete or len(found) > len(wanted):
        return False
    for at, block in enumerate(found):
        if block == wanted[at]:
            continue
        if type(block) is not type(wanted[at]) or not _text(wanted[at]).startswith(_text(block)):
            return False
        if isinstance(block, Reasoning) and block.meta is not None and block.meta != wanted[at].meta:
            return False
    return True


def _text(block: Any) -> str:
    return block.args if isinstance(block, ToolUse) else block.text
