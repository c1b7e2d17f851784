"""Comparison with the official SDK: it reads the same replies, and its types accept our requests."""

from __future__ import annotations

import json

import pytest
from anthropic.lib.streaming._beta_messages import accumulate_event
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from anthropic.types.beta.message_create_params import MessageCreateParams
from pydantic import TypeAdapter, ValidationError

from tenuto.core import jsonio
from tenuto.core.blocks import AnthropicMeta, AnthropicRedactedMeta, Reasoning, Text, ToolUse
from tenuto.wire.anthropic.encode import verbatim
from tenuto.wire.decoder import decode_body, decode_stream
from wire.anthropic import test_encode
from wire.anthropic.cases import STREAMS, WHOLE
from wire.anthropic.test_decode import decoder

EVENT = TypeAdapter(BetaRawMessageStreamEvent)
MESSAGE = TypeAdapter(BetaMessage)


def accumulated(body: bytes) -> dict:
    """Return the message that the SDK makes of a stream."""
    snapshot, buffers = None, {}
    for line in body.decode().splitlines():
        if line.startswith("data: ") and json.loads(line[6:])["type"] != "ping":
            event = EVENT.validate_python(json.loads(line[6:]))
            snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers, request_headers={})
    return json.loads(snapshot.to_json())


def plain(blocks: list) -> list:
    """Null equals absent; citations `[]` too."""

    def clean(value):
        if isinstance(value, dict):
            return {k: clean(v) for k, v in value.items() if v is not None and v != []}
        return [clean(v) for v in value] if isinstance(value, list) else value

    return clean(blocks)


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_sdk_accumulates_the_same_blocks(name):
    theirs = accumulated(STREAMS[name])
    ours = decode_stream(decoder(), [STREAMS[name]])

    assert plain(json.loads(jsonio.encode(verbatim(ours.message)))) == plain(theirs["content"])
    assert (ours.message.raw_stop_reason, ours.model) == (theirs["stop_reason"], theirs["model"])
    assert plain(json.loads(ours.raw_usage)) == plain(theirs["usage"])


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_sdk_reads_the_same_body(name):
    """Text, thinking and calls in the SDK's own types."""
    theirs = MESSAGE.validate_json(WHOLE[name])
    ours = decode_body(decoder(), WHOLE[name]).message.blocks

    for block, their in zip(ours, theirs.content, strict=True):
        match block:
            case Text(text=said):
                assert said == their.text
            case Reasoning(meta=AnthropicRedactedMeta(data=data)):
                assert data == their.data
            case Reasoning(text=thought, meta=AnthropicMeta(signature=signature)):
                assert (thought, signature) == (their.thinking, their.signature)
            case ToolUse():
                assert (block.id, block.name, json.loads(block.args)) == (their.id, their.name, their.input)


# --- requests --------------------------------------------------------------------------------------------------------

PARAMS = TypeAdapter(MessageCreateParams)
CASES = {
    name: test
    for name, test in vars(test_encode).items()
    if name.startswith("test_") and not hasattr(test, "pytestmark")
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_sdk_types_accept_our_requests(name, monkeypatch):
    """Each body that the tests of the encoder write fits the SDK's parameter types."""
    checked_bodies = []
    monkeypatch.setattr(test_encode, "JUDGES", [PARAMS.validate_python, checked_bodies.append])
    CASES[name]()


def test_sdk_types_refuse_an_invalid_body(monkeypatch):
    """Otherwise the test above could not fail."""
    monkeypatch.setattr(test_encode, "JUDGES", [PARAMS.validate_python])
    with pytest.raises(ValidationError):
        test_encode.body(extra_body={"max_tokens": "many"})


@pytest.mark.parametrize("name", ["search, citations", "redacted, interleaved", "compaction", "fallback"])
def test_sdk_types_accept_replayed_blocks(name, monkeypatch):
    """Server tools, redacted thinking, compaction and fallback blocks are sent back in order."""
    monkeypatch.setattr(test_encode, "JUDGES", [PARAMS.validate_python])
    test_encode.test_replayed_blocks_are_complete(name)
