"""Long sessions in small windows, in every dialect: nothing is refused, lost or charged twice.

`TENUTO_COMPACTION_TURNS=300 pytest tests/compaction` runs the long form (`make compaction`).
"""

from __future__ import annotations

import os

import pytest

from compaction.scene import (
    BOUND,
    FACT,
    GPT,
    UNBOUND,
    Bill,
    agent,
    compactions,
    failures,
    play,
    request_count,
    scene,
    window,
)
from tenuto import Compaction
from tenuto.core.messages import AssistantMessage

TURNS = int(os.environ.get("TENUTO_COMPACTION_TURNS", "12"))
WORDS = 35 if TURNS >= 100 else 300
SESSIONS = [
    (BOUND, Compaction()),
    (BOUND, Compaction(by="model", background=False)),
    (UNBOUND, Compaction(background=False)),
    (UNBOUND, Compaction(by="model", keep_results=8)),
    (GPT, Compaction()),
    (GPT, Compaction(by="endpoint")),
    ("google/gemini-3.8-flash", Compaction()),
    ("deepseek/deepseek-chat", Compaction()),
]


def name(value) -> str:
    return value if isinstance(value, str) else f"{value.by}{'' if value.background else '-waits'}"


@pytest.mark.parametrize("model, settings", SESSIONS, ids=name)
@scene
async def test_session_is_longer_than_its_window(tenuto_sim, model, settings):
    tenuto_sim._scripts.turn = play
    bill = Bill(tenuto_sim)
    with window(8000):
        async with agent(model, word_count=WORDS, compaction=settings) as own:
            session = own.session("long")
            for turn in range(TURNS):
                await session.send(f"Question {turn}" + (f": {FACT}." if turn == 3 else "."))
            reply = await session.send("What is my locker?")
            entries, report = await session.entries(), await session.audit()

            assert reply.text == "4711"
            assert FACT in str(session.transcript[3 * 4])
            assert len(compactions(entries)) >= (8 if TURNS >= 100 else 1)
            assert failures(entries) == []
            tenuto_sim.assert_clean()
            assert (report.clean, report.compared) == (True, request_count(entries))
            assert session.transcript.check() == ()
            assert (
                sum(message.has_tool_calls() for message in session.transcript if isinstance(message, AssistantMessage))
                == TURNS
            )
            assert session.cost == bill.total > 0


@pytest.mark.parametrize("model", [BOUND, UNBOUND, GPT])
@scene
async def test_provider_compacts_in_its_replies(tenuto_sim, model):
    tenuto_sim._scripts.turn = play
    bill = Bill(tenuto_sim)
    with window(80_000):
        async with agent(model, word_count=1800, compaction=Compaction(at=50_000 / 80_000, by="threshold")) as own:
            session = own.session("long")
            for turn in range(28):
                await session.send(f"Question {turn}" + (f": {FACT}." if turn == 3 else "."))
            reply = await session.send("What is my locker?")
            entries, report = await session.entries(), await session.audit()

            assert reply.text == "4711"
            assert len([one for one in compactions(entries) if one.inline]) >= 2
            assert failures(entries) == []
            tenuto_sim.assert_clean()
            assert (report.clean, report.compared) == (True, request_count(entries))
            assert session.transcript.check() == ()
            assert session.cost == bill.total > 0
