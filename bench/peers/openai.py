"""The official SDK of OpenAI, raw: Chat Completions and Responses with `stream=True`, nothing assembled."""

from __future__ import annotations

from openai import AsyncOpenAI

from bench.peers.driver import QUESTION, main

CHAT = {"model": "gpt-4o", "messages": [{"role": "user", "content": QUESTION}]}
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
RESPONSES = {"model": "gpt-5.2", "input": QUESTION}


class Chat:
    def __init__(self, address: str) -> None:
        self.client = AsyncOpenAI(api_key="none", base_url=f"{address}/v1", max_retries=0)

    async def read(self) -> int:
        count = 0
        async for _ in await self.client.chat.completions.create(**CHAT, **STREAM):
            count += 1
        return count

    async def said(self) -> tuple[str, str]:
        text, arguments = [], []
        async for chunk in await self.client.chat.completions.create(**CHAT, **STREAM):
            for choice in chunk.choices:
                text.append(choice.delta.content or "")
                arguments += [call.function.arguments or "" for call in choice.delta.tool_calls or ()]
        return "".join(text), "".join(arguments)

    async def once(self) -> str:
        return (await self.client.chat.completions.create(**CHAT)).choices[0].message.content


class Responses(Chat):
    async def read(self) -> int:
        count = 0
        async for _ in await self.client.responses.create(**RESPONSES, stream=True):
            count += 1
        return count

    async def said(self) -> tuple[str, str]:
        text, arguments = [], []
        async for event in await self.client.responses.create(**RESPONSES, stream=True):
            if event.type == "response.output_text.delta":
                text.append(event.delta)
            elif event.type == "response.function_call_arguments.delta":
                arguments.append(event.delta)
        return "".join(text), "".join(arguments)

    async def once(self) -> str:
        return (await self.client.responses.create(**RESPONSES)).output_text


if __name__ == "__main__":
    main({"chat": Chat, "responses": Responses})
