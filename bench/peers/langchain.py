"""Drive langchain: `astream` and `ainvoke` of its chat models for Anthropic and OpenAI."""

from __future__ import annotations

from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI

from bench.peers.driver import PROMPT, main


class Model:
    def __init__(self, base_url: str) -> None:
        self.model = self.make_model(base_url)

    async def count_events(self) -> int:
        count = 0
        async for _ in self.model.astream(PROMPT):
            count += 1
        return count

    async def read_content(self) -> tuple[str, str]:
        text, arguments = [], []
        async for chunk in self.model.astream(PROMPT):
            text.append(str(chunk.text))
            arguments += [call["args"] or "" for call in chunk.tool_call_chunks]
        return "".join(text), "".join(arguments)

    async def request_once(self) -> str:
        return str((await self.model.ainvoke(PROMPT)).text)


class Messages(Model):
    def make_model(self, base_url: str) -> ChatAnthropic:
        return ChatAnthropic(
            model="claude-sonnet-4-5", api_key="none", base_url=base_url, max_tokens=4096, max_retries=0
        )


class Chat(Model):
    def make_model(self, base_url: str) -> ChatOpenAI:
        return ChatOpenAI(model="gpt-4o", api_key="none", base_url=f"{base_url}/v1", max_retries=0, stream_usage=True)


class Responses(Model):
    def make_model(self, base_url: str) -> ChatOpenAI:
        base_url = f"{base_url}/v1"
        return ChatOpenAI(model="gpt-5.2", api_key="none", base_url=base_url, max_retries=0, use_responses_api=True)


if __name__ == "__main__":
    main({"anthropic": Messages, "chat": Chat, "responses": Responses})
