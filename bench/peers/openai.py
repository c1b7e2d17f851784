"""Drive the OpenAI SDK: Chat Completions and Responses with `stream=True`, without assembling the message."""

from __future__ import annotations

from openai import AsyncOpenAI

from bench.peers.driver import PROMPT, main

CHAT = {"model": "gpt-4o", "messages": [{"role": "user", "content": PROMPT}]}
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
RESPONSES = {"model": "gpt-5.2", "input": PROMPT}


class Chat:
    def __init__(self, base_url: str) -> None:
        self.client = AsyncOpenAI(api_key="none", base_url=f"{base_url}/v1", max_retries=0)

    async def count_events(self) -> int:
        count = 0
        async for _ in await self.client.chat.completions.create(**CHAT, **STREAM):
            count += 1
        return count

    async def read_content(self) -> tuple[str, str]:
        text, arguments = [], []
        async for chunk in await self.client.chat.completions.create(**CHAT, **STREAM):
            for choice in chunk.choices:
                text.append(choice.delta.content or "")
                arguments += [call.function.arguments or "" for call in choice.delta.tool_calls or ()]
        return "".join(text), "".join(arguments)

    async def request_once(self) -> str:
        return (await self.client.chat.completions.create(**CHAT)).choices[0].message.content


class Responses(Chat):
    async def count_events(self) -> int:
        count = 0
        async for _ in await self.client.responses.create(**RESPONSES, stream=True):
            count += 1
        return count

    async def read_content(self) -> tuple[str, str]:
        text, arguments = [], []
        async for event in await self.client.responses.create(**RESPONSES, stream=True):
            if event.type == "response.output_text.delta":
                text.append(event.delta)
            elif event.type == "response.function_call_arguments.delta":
                arguments.append(event.delta)
        return "".join(text), "".join(arguments)

    async def request_once(self) -> str:
        return (await self.client.responses.create(**RESPONSES)).output_text


if __name__ == "__main__":
    main({"chat": Chat, "responses": Responses})
