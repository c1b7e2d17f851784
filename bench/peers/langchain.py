"""langchain: `astream` and `ainvoke` of its chat models for Anthropic and OpenAI."""

from __future__ import annotations

from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI

from bench.peers.driver import QUESTION, main


class Model:
    def __init__(self, address: str) -> None:
        self.model = self.made(address)

    async def read(self) -> int:
        count = 0
        async for _ in self.model.astream(QUESTION):
            count += 1
        return count

    async def said(self) -> tuple[str, str]:
        text, arguments = [], []
        async for chunk in self.model.astream(QUESTION):
            text.append(str(chunk.text))
            arguments += [call["args"] or "" for call in chunk.tool_call_chunks]
        return "".join(text), "".join(arguments)

    async def once(self) -> str:
        return str((await self.model.ainvoke(QUESTION)).text)


class Messages(Model):
    def made(self, address: str) -> ChatAnthropic:
        return ChatAnthropic(
            model="claude-sonnet-4-5", api_key="none", base_url=address, max_tokens=4096, max_retries=0
        )


class Chat(Model):
    def made(self, address: str) -> ChatOpenAI:
        return ChatOpenAI(model="gpt-4o", api_key="none", base_url=f"{address}/v1", max_retries=0, stream_usage=True)


class Responses(Model):
    def made(self, address: str) -> ChatOpenAI:
        address = f"{address}/v1"
        return ChatOpenAI(model="gpt-5.2", api_key="none", base_url=address, max_retries=0, use_responses_api=True)


if __name__ == "__main__":
    main({"anthropic": Messages, "chat": Chat, "responses": Responses})
