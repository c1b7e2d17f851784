"""any-llm: `acompletion` of a client that is kept, for Anthropic and OpenAI."""

from __future__ import annotations

from any_llm import AnyLLM

from bench.peers.driver import QUESTION, main

MESSAGES = [{"role": "user", "content": QUESTION}]


class Completion:
    provider = "openai"
    version = "/v1"
    model = "gpt-4o"

    def __init__(self, address: str) -> None:
        self.asked = {"model": self.model, "messages": MESSAGES, "max_tokens": 4096}
        self.client = AnyLLM.create(self.provider, api_key="none", api_base=f"{address}{self.version}")

    async def read(self) -> int:
        count = 0
        async for _ in await self.client.acompletion(**self.asked, stream=True):
            count += 1
        return count

    async def said(self) -> tuple[str, str]:
        text, arguments = [], []
        async for chunk in await self.client.acompletion(**self.asked, stream=True):
            for choice in chunk.choices:
                text.append(choice.delta.content or "")
                arguments += [call.function.arguments or "" for call in choice.delta.tool_calls or ()]
        return "".join(text), "".join(arguments)

    async def once(self) -> str:
        return (await self.client.acompletion(**self.asked)).choices[0].message.content


class Messages(Completion):
    provider = "anthropic"
    version = ""
    model = "claude-sonnet-4-5"


if __name__ == "__main__":
    main({"anthropic": Messages, "chat": Completion})
