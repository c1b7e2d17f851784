"""Faults of a script in replies of every dialect: at their positions, and errors that end a stream."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sim.playing import play, play_pieces
from tenuto.testing import call, cut, drip, fail, say, stall

EVERY = pytest.mark.parametrize(
    ("dialect", "model", "error"),
    [
        ("anthropic-messages", "claude-opus-4-6", b'"type":"overloaded_error"'),
        ("openai-responses", "openai", b'"code":"server_error"'),
        ("openai-chat", "openai", b'data: {"error":{"message":"Busy"'),
        ("openai-chat", "groq", b'event: error\ndata: {"error":{"message":"Busy"'),
        ("gemini", "gemini", b'"status":"UNAVAILABLE"'),
    ],
)
ENDS = (b"message_stop", b"response.completed", b"[DONE]", b"finishReason", b"Never")


@EVERY
def test_faults_are_at_their_positions(dialect, model, error):
    """Between the steps of a stream; a whole body comes after a delay, and half of it before a disconnect."""
    steps = (say("one"), stall(1.0), say("two"), drip(3), call("weather"), cut(), say("Never"))
    pieces = play_pieces(dialect, model, steps, stream=True)
    faults = [index for index, piece in enumerate(pieces) if not isinstance(piece, bytes)]
    between = [b"".join(pieces[start + 1 : end]) for start, end in pairwise((-1, *faults))]
    whole = play(dialect, model, (say("one"),), stream=False)
    *early, half, end = play_pieces(dialect, model, (stall(0.1), drip(3), say("one"), cut()), stream=False)

    assert [pieces[index] for index in faults] == [stall(1.0), drip(3), cut()]
    assert all(text in data for text, data in zip((b"one", b"two", b"weather"), between, strict=True))
    assert [*early, end] == [stall(0.1), drip(3), cut()]
    assert 0 < len(half) < len(whole)
    assert whole.startswith(half)


@EVERY
def test_error_ends_a_stream(dialect, model, error):
    pieces = play_pieces(dialect, model, (say(["It ", "rains"]), fail(529, "Busy"), say("Never sent.")), stream=True)
    data = b"".join(pieces)

    assert b"rains" in data
    assert error in data[data.index(b"rains") :]
    assert b"Busy" in pieces[-1]
    assert not [end for end in ENDS if end in data]
