"""Ours: an agent's session, handed over."""

from __future__ import annotations

import sys

from bench.peers.loops import CLAUDE, GPT, QUESTIONS, order
from tenuto import Agent, tool


@tool
def weather(city: str) -> str:
    """Current weather in a city."""
    return f"12 degrees in {city}"


def main() -> None:
    models = {"anthropic": f"anthropic/{CLAUDE}", "openai": f"openai/{GPT}"}
    names = [models[who] for who in order(sys.argv[1])]
    session = Agent(names[0], tools=[weather], store=None, effort="medium").session()
    losses = 0
    for at, (name, question) in enumerate(zip(names, QUESTIONS, strict=True)):
        if at:
            session.handover(name)
        losses += len(session.send(question).losses)
    print(f"losses: {losses}")


if __name__ == "__main__":
    main()
