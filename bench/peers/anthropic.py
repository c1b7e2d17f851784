"""Drive the Anthropic SDK: `messages.create(stream=True)`, without assembling the message."""

from __future__ import annotations

from anthropic import AsyncAnthropic

from bench.peers.driver import PROMPT, main

REQUEST = {"model": "claude-sonnet-4-5", "max_tokens": 4096, "messages": [{"role": "user", "content": PROMPT}]}


class Messages:
    def __init__(self, base_url: str) -> None:
        self.client = AsyncAnthropic(api_key="none", base_url=base_url, max_retries=0)

    async def count_events(self) -> int:
        count = 0
        async for _ in await self.client.messages.create(**REQUEST, stream=True):
            count += 1
        return count

    async def read_content(self) -> tuple[str, str]:
        text, arguments = [], []
        async for event in await self.client.messages.create(**REQUEST, stream=True):
            if event.type == "content_block_delta":
                text.append(getattr(event.delta, "text", ""))
                arguments.append(getattr(event.delta, "partial_json", ""))
        return "".join(text), "".join(arguments)

    async def request_once(self) -> str:
        return (await self.client.messages.create(**REQUEST)).content[0].text


if __name__ == "__main__":
    main({"anthropic": Messages})
