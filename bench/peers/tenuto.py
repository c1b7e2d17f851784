"""Drive tenuto: typed events and an assembled reply, in all four dialects."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from bench.peers.driver import MESSAGE, PROMPT, Append, main
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
    def __init__(self, dialect: str, version: str, base_url: str) -> None:
        self.client = AsyncClient(providers=[Provider("bench", dialect, f"{base_url}{version}")])

    def _open_stream(self):
        return self.client.stream("bench/m", PROMPT, max_tokens=4096)

    async def count_events(self) -> int:
        deltas = 0
        async with self._open_stream() as stream:
            async for event in stream:
                deltas += type(event) is ContentDelta
        return deltas if stream.reply.stop_reason else 0

    async def read_content(self) -> tuple[str, str]:
        async with self._open_stream() as stream:
            async for _ in stream:
                pass
        return stream.reply.text, "".join(call.args for call in stream.reply.tool_calls)

    async def request_once(self) -> str:
        return (await self.client.chat("bench/m", PROMPT, max_tokens=4096)).text


def _entry(at: int) -> EntryDraft:
    return make_draft(MessageAdded(UserMessage(f"{at}{MESSAGE}")), id=f"e{at:08}", time_ms=1_700_000_000_000 + at)


async def open_session(directory: Path, count: int) -> Append:
    """Open a session in SQLite; an append is one entry, which is on the disk when it returns."""
    store = await open_store(directory / f"{count}.db").__aenter__()
    lease = await store.lease("bench")
    for start in range(0, count, 500):
        lease = await store.append(lease, [_entry(at) for at in range(start, min(start + 500, count))])

    async def append() -> None:
        nonlocal lease
        lease = await store.append(lease, [_entry(lease.head)])

    return append


if __name__ == "__main__":
    main({dialect: partial(Client, *arguments) for dialect, arguments in DIALECTS.items()}, open_session)
