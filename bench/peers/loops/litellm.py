"""Run litellm: `completion` in a loop, with all messages sent back unchanged."""

from __future__ import annotations

import json
import os
import sys

import litellm

from bench.peers.loops import CLAUDE, GPT, PROMPTS, provider_order

litellm.suppress_debug_info = True
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "weather", "description": "Current weather in a city.", "parameters": CITY}
TOOLS = [{"type": "function", "function": WEATHER}]


def main() -> None:
    base_url = os.environ["ANTHROPIC_BASE_URL"]
    thinking = {"type": "enabled", "budget_tokens": 1024}
    options = {
        "anthropic": {"model": f"anthropic/{CLAUDE}", "api_base": base_url, "thinking": thinking, "max_tokens": 4000},
        "openai": {"model": f"openai/{GPT}", "api_base": f"{base_url}/v1"},
    }
    messages: list[dict] = []
    for provider, prompt in zip(provider_order(sys.argv[1]), PROMPTS, strict=True):
        messages.append({"role": "user", "content": prompt})
        while True:
            reply = litellm.completion(messages=messages, tools=TOOLS, **options[provider]).choices[0].message
            messages.append(reply.model_dump(exclude_none=True))
            if not reply.tool_calls:
                break
            for call in reply.tool_calls:
                result = f"12 degrees in {json.loads(call.function.arguments)['city']}"
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    print("losses: not reported")


if __name__ == "__main__":
    main()
