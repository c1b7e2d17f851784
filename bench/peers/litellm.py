"""Drive litellm: `acompletion` for Messages and chat, and `aresponses`, which passes a stream through."""

from __future__ import annotations

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else the import requests prices from GitHub

import litellm

from bench.peers.driver import PROMPT, main

litellm.suppress_debug_info = True
MESSAGES = [{"role": "user", "content": PROMPT}]


class Chat:
    model = "openai/gpt-4o"

    def __init__(self, base_url: str) -> None:
        self.options = {"model": self.model, "messages": MESSAGES, "api_key": "none", "max_tokens": 4096}
        self.options |= {"api_base": self.make_base_url(base_url), "num_retries": 0}

    @staticmethod
    def make_base_url(base_url: str) -> str:
        return f"{base_url}/v1"

    async def count_events(self) -> int:
        count = 0
        async for _ in await litellm.acompletion(**self.options, stream=True):
            count += 1
        return count

    async def read_content(self) -> tuple[str, str]:
        text, arguments = [], []
        async for chunk in await litellm.acompletion(**self.options, stream=True):
            for choice in chunk.choices:
                text.append(choice.delta.content or "")
                arguments += [call.function.arguments or "" for call in choice.delta.tool_calls or ()]
        return "".join(text), "".join(arguments)

    async def request_once(self) -> str:
        return (await litellm.acompletion(**self.options)).choices[0].message.content


class Messages(Chat):
    model = "anthropic/claude-sonnet-4-5"

    @staticmethod
    def make_base_url(base_url: str) -> str:
        return base_url


class Responses(Chat):
    model = "openai/gpt-5.2"

    def __init__(self, base_url: str) -> None:
        self.options = {"model": self.model, "input": PROMPT, "api_key": "none", "api_base": f"{base_url}/v1"}

    async def count_events(self) -> int:
        count = 0
        async for _ in await litellm.aresponses(**self.options, stream=True):
            count += 1
        return count

    async def read_content(self) -> tuple[str, str]:
        text, arguments = [], []
        async for event in await litellm.aresponses(**self.options, stream=True):
            if event.type == "response.output_text.delta":
                text.append(event.delta)
            elif event.type == "response.function_call_arguments.delta":
                arguments.append(event.delta)
        return "".join(text), "".join(arguments)

    async def request_once(self) -> str:
        reply = await litellm.aresponses(**self.options)
        return next(item for item in reply.output if item.type == "message").content[0].text


if __name__ == "__main__":
    main({"anthropic": Messages, "chat": Chat, "responses": Responses})
