"""The official SDK of Anthropic, raw: `messages.create(stream=True)`, nothing assembled."""

from __future__ import annotations

from anthropic import AsyncAnthropic

from bench.peers.driver import QUESTION, main

ASKED = {"model": "claude-sonnet-4-5", "max_tokens": 4096, "messages": [{"role": "user", "content": QUESTION}]}


class Messages:
    def __init__(self, address: str) -> None:
        self.client = AsyncAnthropic(api_key="none", base_url=address, max_retries=0)

    async def read(self) -> int:
        count = 0
        async for _ in await self.client.messages.create(**ASKED, stream=True):
            count += 1
        return count

    async def said(self) -> tuple[str, str]:
        text, arguments = [], []
        async for event in await self.client.messages.create(**ASKED, stream=True):
            if event.type == "content_block_delta":
                text.append(getattr(event.delta, "text", ""))
                arguments.append(getattr(event.delta, "partial_json", ""))
        return "".join(text), "".join(arguments)

    async def once(self) -> str:
        return (await self.client.messages.create(**ASKED)).content[0].text


if __name__ == "__main__":
    main({"anthropic": Messages})
