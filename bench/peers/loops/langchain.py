"""Run langchain: `invoke` in a loop, with all messages sent back unchanged."""

from __future__ import annotations

import sys

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from bench.peers.loops import CLAUDE, GPT, PROMPTS, provider_order


@tool
def weather(city: str) -> str:
    """Current weather in a city."""
    return f"12 degrees in {city}"


def main() -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    models = {
        "anthropic": ChatAnthropic(model=CLAUDE, thinking=thinking, max_tokens=4000),
        "openai": ChatOpenAI(model=GPT, use_responses_api=True, reasoning={"effort": "medium"}),
    }
    bound_models = {provider: model.bind_tools([weather]) for provider, model in models.items()}
    messages = []
    for provider, prompt in zip(provider_order(sys.argv[1]), PROMPTS, strict=True):
        messages.append(HumanMessage(prompt))
        while True:
            messages.append(bound_models[provider].invoke(messages))
            if not messages[-1].tool_calls:
                break
            calls = messages[-1].tool_calls
            messages += [ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"]) for call in calls]
    print("losses: not reported")


if __name__ == "__main__":
    main()
