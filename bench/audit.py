"""Compare the cost of an audit with that of encoding its request: sessions of 1,000 turns with tools, in four dialects."""

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
from tenuto.core.messages import Message, UserMessage
from tenuto.core.provider import Target
from tenuto.core.request import ChatRequest
from tenuto.sim.simulator import Simulator
from tenuto.testing import call, say, think, turn
from tenuto.wire.write import write_request

SESSIONS = 10
TURNS = 100
"""The turns of one session. Sessions are joined: a simulator reads the whole session in each turn."""
REPEAT = 1
GOAL = 3
MODELS = ("sim/anthropic", "sim/openai", "sim/gemini", "sim/deepseek")


@tool(effect="pure")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def _play_sessions(model: str) -> tuple[ChatRequest, Target]:
    """Run sessions; return the next request of a session with all their messages, and the target."""
    script = [turn(think("Hm, let me think about that. " * 5), call("add", {"a": at, "b": 2})) for at in range(TURNS)]
    messages: list[Message] = []
    for number in range(SESSIONS):
        async with Simulator(f"session {number}", [*script, turn(say("It is done."))]) as simulator:
            os.environ["TENUTO_SIM_URL"] = simulator.base_url
            try:
                options = {"tools": [add], "store": None, "limits": Limits(turns=None), "effort": "high"}
                async with AsyncAgent(model, **options) as agent:
                    session = agent.session()
                    await session.send("Add.")
                    request = session._log.next.request(agent.toolbox.definitions())
                    messages += request.transcript
                    target = agent.client._target(model)
            finally:
                del os.environ["TENUTO_SIM_URL"]
    return replace(request, messages=(*messages, UserMessage("And?"))), target


def run(board: Board) -> None:
    """Measure this section and add its rows."""
    for model in MODELS:
        request, target = asyncio.run(_play_sessions(model))
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
            f"{SESSIONS * TURNS:,} turns, {len(wire.body)} bytes",
        )
        board.add(turns.make_result(name, "auditing", "encoding", goal=GOAL, unit="ms CPU", detail=detail))
