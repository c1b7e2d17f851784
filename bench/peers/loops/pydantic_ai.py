"""Run pydantic-ai: an agent; each run gets the messages of the previous one."""

from __future__ import annotations

import sys

from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings

from bench.peers.loops import CLAUDE, GPT, PROMPTS, provider_order

agent = Agent()


@agent.tool_plain
def weather(city: str) -> str:
    """Current weather in a city."""
    return f"12 degrees in {city}"


def main() -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    options = {
        "anthropic": {
            "model": AnthropicModel(CLAUDE),
            "model_settings": AnthropicModelSettings(anthropic_thinking=thinking, max_tokens=4000),
        },
        "openai": {
            "model": OpenAIResponsesModel(GPT),
            "model_settings": OpenAIResponsesModelSettings(openai_reasoning_effort="medium"),
        },
    }
    history = []
    for provider, prompt in zip(provider_order(sys.argv[1]), PROMPTS, strict=True):
        history = agent.run_sync(prompt, message_history=history, **options[provider]).all_messages()
    print("losses: not reported")


if __name__ == "__main__":
    main()
