"""Run an agent with typed output until it is killed: `python tests/crash/output_program.py DATABASE MODEL`.

It uses the simulator at `TENUTO_SIM_URL` and prints a word for each delta, and one for a rejected output.
"""

from __future__ import annotations

import dataclasses
import sys

from tenuto import Agent
from tenuto.agent.events import OutputRetried, ToolFinished
from tenuto.core.events import ContentDelta


@dataclasses.dataclass
class City:
    name: str
    population: int


def agent(where: str, model: str) -> Agent[None, City]:
    return Agent(model, output=City, store=where)


def main() -> None:
    """Run the agent and print its events."""
    where, model = sys.argv[1:]
    with agent(where, model) as mine, mine.session("run").stream("Which city?", effort="high") as run:
        for event in run:
            if isinstance(event, OutputRetried | ToolFinished):
                print("rejected", flush=True)
            elif isinstance(event, ContentDelta):
                print("delta", flush=True)


if __name__ == "__main__":
    main()
