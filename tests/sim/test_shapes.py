"""What the simulator sends has the form of recorded traffic: no key that was never seen, none missing that always is."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest

from sim.keysets import Shape, events_of, objects_in, recorded, wherever
from sim.playing import TURNS, play

CORPUS = Path(os.environ.get("TENUTO_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")
HOSTS: dict[tuple[str, str], tuple[str, ...]] = {
    ("anthropic-messages", "anthropic"): ("anthropic",),
    ("openai-responses", "openai"): ("openai", "azure"),
    ("openai-chat", "openai"): ("openai", "azure"),
    ("openai-chat", "deepseek"): ("deepseek",),
    ("openai-chat", "mistral"): ("mistral",),
    ("openai-chat", "groq"): ("groq",),
    ("openai-chat", "openrouter"): ("openrouter",),
    ("openai-chat", "xai"): ("xai",),
    ("openai-chat", "zai"): ("zai",),
    ("openai-chat", "ollama"): ("ollama", "ollama-cloud"),
    ("openai-chat", "perplexity"): ("perplexity",),
    ("gemini", "gemini"): ("google", "vertex"),
}
"""Whose recordings speak for a style."""
USAGE_DETAILS = {"prompt_tokens_details", "completion_tokens_details", "cached_tokens", "reasoning_tokens"}
UNRECORDED: dict[tuple[str, str], set[str]] = {
    ("mistral", "content[thinking]"): {"signature"},
    **{("groq", place): USAGE_DETAILS for place in ("usage", "prompt_tokens_details", "completion_tokens_details")},
}
"""Keys that hosts document and no recording has, by style and last step of the place."""
RECORDED_WHOLE = {"anthropic", "openai"}
"""Styles whose own recordings have every kind of step; what others were never recorded with, other hosts speak for."""
pytestmark = pytest.mark.skipif(
    not CORPUS.is_dir(), reason=f"no recorded traffic in {CORPUS}; set TENUTO_CORPUS to run it"
)


@functools.cache
def shapes(dialect: str, hosts: tuple[str, ...] = ()) -> dict[str, Shape]:
    return recorded(CORPUS, dialect, hosts)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(("dialect", "style"), HOSTS, ids=str)
def test_every_object_has_the_keys_that_recordings_have(dialect, style, stream):
    known = shapes(dialect, HOSTS[dialect, style])
    elsewhere = shapes(dialect)
    assert known, "no recordings of this host"
    faults = []
    for turn, steps in TURNS.items():
        for event in events_of(play(dialect, style, steps, stream=stream), streamed=stream):
            for place, keys in objects_in(event, streamed=stream):
                own = known.get(place, Shape())
                seen = (
                    own.some | known.get(wherever(place), Shape()).some
                )  # a delta may hold what a whole message holds
                if style not in RECORDED_WHOLE:
                    seen = seen | elsewhere.get(wherever(place), Shape()).some
                unknown = keys - seen - UNRECORDED.get((style, place.rpartition(".")[2]), set())
                faults += [f"{turn}: {place}: no recording has {key!r}" for key in sorted(unknown)]
                if dialect != "openai-chat":  # only the differences between hosts that clients depend on are simulated
                    faults += [f"{turn}: {place}: lacks {key!r}" for key in sorted(own.always - keys)]

    assert sorted(set(faults)) == []
