"""Run tenuto: an agent session with two handovers."""

from __future__ import annotations

import sys

from bench.peers.loops import CLAUDE, GPT, PROMPTS, provider_order
from tenuto import Agent, tool


@tool
def weather(city: str) -> str:
    """Current weather in a city."""
    return f"12 degrees in {city}"


def main() -> None:
    models = {"anthropic": f"anthropic/{CLAUDE}", "openai": f"openai/{GPT}"}
    names = [models[provider] for provider in provider_order(sys.argv[1])]
    session = Agent(names[0], tools=[weather], store=None, effort="medium").session()
    losses = 0
    for at, (name, prompt) in enumerate(zip(names, PROMPTS, strict=True)):
        if at:
            session.handover(name)
        losses += len(session.send(prompt).losses)
    print(f"losses: {losses}")


if __name__ == "__main__":
    main()
