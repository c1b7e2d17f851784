"""Drive any-llm: `acompletion` of one client, for Anthropic and OpenAI."""

from __future__ import annotations

from any_llm import AnyLLM

from bench.peers.driver import PROMPT, main

MESSAGES = [{"role": "user", "content": PROMPT}]


class Completion:
    provider = "openai"
    version = "/v1"
    model = "gpt-4o"

    def __init__(self, base_url: str) -> None:
        self.options = {"model": self.model, "messages": MESSAGES, "max_tokens": 4096}
        self.client = AnyLLM.create(self.provider, api_key="none", api_base=f"{base_url}{self.version}")

    async def count_events(self) -> int:
        count = 0
        async for _ in await self.client.acompletion(**self.options, stream=True):
            count += 1
        return count

    async def read_content(self) -> tuple[str, str]:
        text, arguments = [], []
        async for chunk in await self.client.acompletion(**self.options, stream=True):
            for choice in chunk.choices:
                text.append(choice.delta.content or "")
                arguments += [call.function.arguments or "" for call in choice.delta.tool_calls or ()]
        return "".join(text), "".join(arguments)

    async def request_once(self) -> str:
        return (await self.client.acompletion(**self.options)).choices[0].message.content


class Messages(Completion):
    provider = "anthropic"
    version = ""
    model = "claude-sonnet-4-5"


if __name__ == "__main__":
    main({"anthropic": Messages, "chat": Completion})
