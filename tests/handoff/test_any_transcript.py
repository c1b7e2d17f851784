"""Random transcripts for every target: the written request is accepted."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from handoff.targets import MODELS, SIM_PROVIDERS, accept, target, without_traits
from handoff.transcript_strategies import transcripts
from tenuto.core.messages import AssistantMessage
from tenuto.wire.adapt import adapt
from tenuto.wire.translate import LOSS_EFFECTS

DIALECTS = ("anthropic-messages", "openai-responses", "openai-chat", "gemini")
KNOWN = [target(named) for named in (*SIM_PROVIDERS, *MODELS)]
UNKNOWN = [without_traits(target(named)) for named in SIM_PROVIDERS]
SPOKEN = {dialect: [to for to in (*KNOWN, *UNKNOWN) if to.dialect == dialect] for dialect in DIALECTS}
PHASES = (Phase.explicit, Phase.generate)


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=45, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(data=st.data())
def test_any_transcript_is_accepted_by_every_target(dialect, data):
    """By every simulated provider and by models with their own rules, with and without model traits.

    Adapting an adapted transcript again changes nothing and loses nothing.
    """
    messages = data.draw(transcripts(SPOKEN[dialect][0]))
    way = data.draw(st.sampled_from(("omit", "note", "inline")))
    options = {"notes": way == "note", "inline": way == "inline"}
    for to in SPOKEN[dialect]:
        accept(messages, to, foreign_reasoning=way)
        once = adapt(messages, to, **options)
        again = adapt(once.messages, to, **options)
        assert again.messages is once.messages
        assert again.losses == ()
        assert {loss.kind for loss in once.losses} <= LOSS_EFFECTS.keys()
    for to in SPOKEN[dialect][::5]:
        check_omitted_blocks(messages, to, data.draw(st.integers(0, 2**16)))


def check_omitted_blocks(messages, to, bits: int) -> None:
    """Omit some blocks, selected by bits: the request is accepted, and each block is a loss with its location."""
    candidates = [
        (at, block_index)
        for at, message in enumerate(messages)
        if isinstance(message, AssistantMessage) and not message.incomplete
        for block_index in range(len(message.blocks))
    ]
    without = tuple(block_index for bit, block_index in enumerate(candidates) if bits >> bit & 1)
    lost = {str(loss.location) for loss in accept(messages, to, omit_blocks=without).losses if loss.kind == "left-out"}
    assert {f"messages[{at}].blocks[{block_index}]" for at, block_index in without} <= lost
