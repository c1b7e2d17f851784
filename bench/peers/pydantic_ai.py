"""Drive pydantic-ai: requests to its models (`pydantic_ai.direct`), without an agent."""

from __future__ import annotations

from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition

from bench.peers.driver import PROMPT, TOOL, main

MESSAGES = [ModelRequest.user_text_prompt(PROMPT)]
LOOK = ToolDefinition(name=TOOL["name"], description=TOOL["description"], parameters_json_schema=TOOL["parameters"])
TOOLS = ModelRequestParameters(function_tools=[LOOK])
SETTINGS = {"max_tokens": 4096}  # without it, a request without streaming is streamed


class Direct:
    def __init__(self, base_url: str) -> None:
        self.model = self.make_model(base_url)

    async def count_events(self) -> int:
        count = 0
        async with self._open_stream() as stream:
            async for _ in stream:
                count += 1
        return count

    async def read_content(self) -> tuple[str, str]:
        async with self._open_stream() as stream:
            async for _ in stream:
                pass
        parts = stream.get().parts
        text = "".join(part.content for part in parts if part.part_kind == "text")
        return text, "".join(part.args for part in parts if part.part_kind == "tool-call")

    async def request_once(self) -> str:
        reply = await model_request(self.model, MESSAGES, model_settings=SETTINGS)
        return next(part.content for part in reply.parts if part.part_kind == "text")

    def _open_stream(self):
        return model_request_stream(self.model, MESSAGES, model_settings=SETTINGS, model_request_parameters=TOOLS)


class Messages(Direct):
    def make_model(self, base_url: str) -> AnthropicModel:
        return AnthropicModel("claude-sonnet-4-5", provider=AnthropicProvider(api_key="none", base_url=base_url))


class Chat(Direct):
    def make_model(self, base_url: str) -> OpenAIChatModel:
        return OpenAIChatModel("gpt-4o", provider=OpenAIProvider(api_key="none", base_url=f"{base_url}/v1"))


class Responses(Direct):
    def make_model(self, base_url: str) -> OpenAIResponsesModel:
        return OpenAIResponsesModel("gpt-5.2", provider=OpenAIProvider(api_key="none", base_url=f"{base_url}/v1"))


if __name__ == "__main__":
    main({"anthropic": Messages, "chat": Chat, "responses": Responses})
