"""Compaction in sessions with typed output and metadata."""

from __future__ import annotations

import dataclasses

import pytest

from compaction.scene import GPT, UNBOUND, agent, compactions, kinds, play, scene, summary_text
from tenuto.core.journal import CompactionRequested
from tenuto.testing import call, say


@dataclasses.dataclass
class City:
    name: str


OSLO = '{"name": "Oslo"}'


@pytest.mark.parametrize("model", [UNBOUND, GPT, "anthropic/claude-3-5-haiku-latest"])
@scene
async def test_session_with_typed_output_is_compacted(tenuto_sim, model):
    """A native request for a summary does not ask for the output; the next run has one again, and the audit is clean."""

    def answer(request):
        if request.compaction == "alone" or summary_text(request):
            return play(request)
        return (call("final_answer", {"name": "Oslo"}),) if "haiku" in model else (say(OSLO),)

    tenuto_sim._scripts.turn = answer
    async with agent(f"sim/{model}", output=City, store=None) as own:
        session = own.session("s", metadata={"customer": "42"})
        for number in range(4):
            assert (await session.send(f"City {number}?")).output == City("Oslo")
        assert await session.compact() is not None
        entries = await session.entries()
        assert compactions(entries)
        assert kinds(entries, CompactionRequested)
        assert "json_schema" not in str(tenuto_sim.requests[-1].body)
        assert (await session.send("And now?")).output == City("Oslo")
        report = await session.audit()
        assert report.clean, str(report)
        [stored] = [one async for one in own.sessions(metadata={"customer": "42"})]
        assert stored.meta.message_count >= 10
    tenuto_sim.assert_clean()
