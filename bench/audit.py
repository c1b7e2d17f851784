"""Compare the cost of an audit with that of encoding its request: sessions of 100 turns with tools, in four dialects."""

from __future__ import annotations

import asyncio
import os
from functools import partial

from msgspec.structs import replace

from bench.results import Board
from bench.turns import measure_cpu, measure_in_turns
from tenuto import Limits, tool
from tenuto.agent.agent import AsyncAgent
from tenuto.audit.api import report_of
from tenuto.core.messages import UserMessage
from tenuto.core.provider import Target
from tenuto.core.request import ChatRequest
from tenuto.sim.simulator import Simulator
from tenuto.testing import call, say, think, turn
from tenuto.wire.write import write_request

TURNS = 100
REPEAT = 2
GOAL = 3
MODELS = ("sim/anthropic", "sim/openai", "sim/gemini", "sim/deepseek")


@tool(effect="pure")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def _play_session(model: str) -> tuple[ChatRequest, Target]:
    """Run a session; return its next request and the target."""
    script = [turn(think("Hm, let me think about that. " * 5), call("add", {"a": at, "b": 2})) for at in range(TURNS)]
    async with Simulator(script=[*script, turn(say("It is done."))]) as simulator:
        os.environ["TENUTO_SIM_URL"] = simulator.base_url
        try:
            options = {"tools": [add], "store": None, "limits": Limits(turns=None), "effort": "high"}
            async with AsyncAgent(model, **options) as agent:
                session = agent.session()
                await session.send("Add.")
                request = session._log.next.request(agent.toolbox.definitions())
                extended = replace(request, messages=(*request.transcript, UserMessage("And?")))
                return extended, agent.client._target(model)
        finally:
            del os.environ["TENUTO_SIM_URL"]


def run(board: Board) -> None:
    """Measure this section and add its rows."""
    for model in MODELS:
        request, target = asyncio.run(_play_session(model))
        wire = write_request(request, target)
        report = report_of(request, target, wire)
        if not report.clean or any(block.outcome != "kept" for block in report.blocks):
            raise SystemExit(f"{model}: the audit has findings\n{report}")
        functions = {
            "encoding": partial(measure_cpu, write_request, request, target),
            "auditing": partial(measure_cpu, report_of, request, target, wire),
        }
        turns = measure_in_turns(functions, REPEAT)
        name, detail = (
            f"audit, {target.dialect}: audit / encoding the request",
            f"{TURNS} turns, {len(wire.body)} bytes",
        )
        board.add(turns.make_result(name, "auditing", "encoding", goal=GOAL, unit="ms CPU", detail=detail))
