"""Whatever is handed over, and to whom: what is sent is accepted."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from handoff.facing import MODELS, STYLES, accepted, target, untold
from handoff.saying import transcripts
from tenuto.core.messages import AssistantMessage
from tenuto.wire.adapt import adapt
from tenuto.wire.translate import LOSS_EFFECTS

DIALECTS = ("anthropic-messages", "openai-responses", "openai-chat", "gemini")
KNOWN = [target(named) for named in (*STYLES, *MODELS)]
UNKNOWN = [untold(target(named)) for named in STYLES]
SPOKEN = {dialect: [to for to in (*KNOWN, *UNKNOWN) if to.dialect == dialect] for dialect in DIALECTS}
PHASES = (Phase.explicit, Phase.generate)


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=45, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(data=st.data())
def test_any_transcript_is_accepted_by_every_target(dialect, data):
    """By every style and the models that have rules of their own, also where nobody knows anything of the model.

    What was adapted is fit: adapting it again gives the very same messages, and nothing more is lost.
    """
    said = data.draw(transcripts(SPOKEN[dialect][0]))
    way = data.draw(st.sampled_from(("omit", "note", "inline")))
    options = {"notes": way == "note", "inline": way == "inline"}
    for to in SPOKEN[dialect]:
        accepted(said, to, foreign_reasoning=way)
        once = adapt(said, to, **options)
        again = adapt(once.messages, to, **options)
        assert again.messages is once.messages
        assert again.losses == ()
        assert {loss.kind for loss in once.losses} <= LOSS_EFFECTS.keys()
    for to in SPOKEN[dialect][::5]:
        left_out(said, to, data.draw(st.integers(0, 2**16)))


def left_out(said, to, bits: int) -> None:
    """Leave some blocks out, by the bits of a number: it is accepted, and each is a loss in its place."""
    places = [
        (at, place)
        for at, message in enumerate(said)
        if isinstance(message, AssistantMessage) and not message.incomplete
        for place in range(len(message.blocks))
    ]
    without = tuple(place for bit, place in enumerate(places) if bits >> bit & 1)
    told = {str(loss.location) for loss in accepted(said, to, omit_blocks=without).losses if loss.kind == "left-out"}
    assert {f"messages[{at}].blocks[{place}]" for at, place in without} <= told
