"""litellm: `completion` in a loop, messages kept as they come."""

from __future__ import annotations

import json
import os
import sys

import litellm

from bench.peers.loops import CLAUDE, GPT, QUESTIONS, order

litellm.suppress_debug_info = True
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "weather", "description": "Current weather in a city.", "parameters": CITY}
TOOLS = [{"type": "function", "function": WEATHER}]


def main() -> None:
    address = os.environ["ANTHROPIC_BASE_URL"]
    thinking = {"type": "enabled", "budget_tokens": 1024}
    asked = {
        "anthropic": {"model": f"anthropic/{CLAUDE}", "api_base": address, "thinking": thinking, "max_tokens": 4000},
        "openai": {"model": f"openai/{GPT}", "api_base": f"{address}/v1"},
    }
    messages: list[dict] = []
    for who, question in zip(order(sys.argv[1]), QUESTIONS, strict=True):
        messages.append({"role": "user", "content": question})
        while True:
            reply = litellm.completion(messages=messages, tools=TOOLS, **asked[who]).choices[0].message
            messages.append(reply.model_dump(exclude_none=True))
            if not reply.tool_calls:
                break
            for call in reply.tool_calls:
                said = f"12 degrees in {json.loads(call.function.arguments)['city']}"
                messages.append({"role": "tool", "tool_call_id": call.id, "content": said})
    print("losses: not told")


if __name__ == "__main__":
    main()
