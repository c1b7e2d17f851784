"""Ours: every event typed, the reply assembled, in all four dialects."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from bench.peers.driver import MESSAGE, QUESTION, Save, main
from tenuto import AsyncClient, Provider
from tenuto.core.events import ContentDelta
from tenuto.core.journal import MessageAdded
from tenuto.core.messages import UserMessage
from tenuto.core.stored import EntryDraft, make_draft
from tenuto.store.open import open_store

DIALECTS = {
    "anthropic": ("anthropic-messages", "/v1"),
    "chat": ("openai-chat", "/v1"),
    "responses": ("openai-responses", "/v1"),
    "gemini": ("gemini", "/v1beta"),
}


class Client:
    def __init__(self, dialect: str, version: str, address: str) -> None:
        self.client = AsyncClient(providers=[Provider("bench", dialect, f"{address}{version}")])

    def _asked(self):
        return self.client.stream("bench/m", QUESTION, max_tokens=4096)

    async def read(self) -> int:
        deltas = 0
        async with self._asked() as stream:
            async for event in stream:
                deltas += type(event) is ContentDelta
        return deltas if stream.reply.stop_reason else 0

    async def said(self) -> tuple[str, str]:
        async with self._asked() as stream:
            async for _ in stream:
                pass
        return stream.reply.text, "".join(call.args for call in stream.reply.tool_calls)

    async def once(self) -> str:
        return (await self.client.chat("bench/m", QUESTION, max_tokens=4096)).text


def _entry(at: int) -> EntryDraft:
    return make_draft(MessageAdded(UserMessage(f"{at}{MESSAGE}")), id=f"e{at:08}", time_ms=1_700_000_000_000 + at)


async def keep(folder: Path, count: int) -> Save:
    """A session in SQLite, one entry an append, each on the disk before it is acknowledged."""
    store = await open_store(folder / f"{count}.db").__aenter__()
    lease = await store.lease("bench")
    for start in range(0, count, 500):
        lease = await store.append(lease, [_entry(at) for at in range(start, min(start + 500, count))])

    async def save() -> None:
        nonlocal lease
        lease = await store.append(lease, [_entry(lease.head)])

    return save


if __name__ == "__main__":
    main({dialect: partial(Client, *told) for dialect, told in DIALECTS.items()}, keep)
