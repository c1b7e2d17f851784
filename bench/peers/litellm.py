"""litellm: `acompletion` for Messages and chat, and `aresponses`, which passes a stream through."""

from __future__ import annotations

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks GitHub for prices at import

import litellm

from bench.peers.driver import QUESTION, main

litellm.suppress_debug_info = True
MESSAGES = [{"role": "user", "content": QUESTION}]


class Chat:
    model = "openai/gpt-4o"

    def __init__(self, address: str) -> None:
        self.asked = {"model": self.model, "messages": MESSAGES, "api_key": "none", "max_tokens": 4096}
        self.asked |= {"api_base": self.base(address), "num_retries": 0}

    @staticmethod
    def base(address: str) -> str:
        return f"{address}/v1"

    async def read(self) -> int:
        count = 0
        async for _ in await litellm.acompletion(**self.asked, stream=True):
            count += 1
        return count

    async def said(self) -> tuple[str, str]:
        text, arguments = [], []
        async for chunk in await litellm.acompletion(**self.asked, stream=True):
            for choice in chunk.choices:
                text.append(choice.delta.content or "")
                arguments += [call.function.arguments or "" for call in choice.delta.tool_calls or ()]
        return "".join(text), "".join(arguments)

    async def once(self) -> str:
        return (await litellm.acompletion(**self.asked)).choices[0].message.content


class Messages(Chat):
    model = "anthropic/claude-sonnet-4-5"

    @staticmethod
    def base(address: str) -> str:
        return address


class Responses(Chat):
    model = "openai/gpt-5.2"

    def __init__(self, address: str) -> None:
        self.asked = {"model": self.model, "input": QUESTION, "api_key": "none", "api_base": f"{address}/v1"}

    async def read(self) -> int:
        count = 0
        async for _ in await litellm.aresponses(**self.asked, stream=True):
            count += 1
        return count

    async def said(self) -> tuple[str, str]:
        text, arguments = [], []
        async for event in await litellm.aresponses(**self.asked, stream=True):
            if event.type == "response.output_text.delta":
                text.append(event.delta)
            elif event.type == "response.function_call_arguments.delta":
                arguments.append(event.delta)
        return "".join(text), "".join(arguments)

    async def once(self) -> str:
        reply = await litellm.aresponses(**self.asked)
        return next(item for item in reply.output if item.type == "message").content[0].text


if __name__ == "__main__":
    main({"anthropic": Messages, "chat": Chat, "responses": Responses})
