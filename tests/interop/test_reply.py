"""A reply of the client in the forms of the specifications."""

from __future__ import annotations

import json

from tenuto import Client
from tenuto.interop import from_unified, to_unified
from tenuto.reasoning import ReasoningText, to_details, with_details, without_details


def test_reply_is_written_as_the_unified_document():
    with Client() as client:
        reply = client.chat("sim/anthropic", "What is 2 + 2?", effort="high")
    document = reply.to_unified()

    assert document == to_unified(reply.response)
    assert from_unified(json.loads(json.dumps(document))) == reply.response
    assert [part["type"] for part in document["choices"][0]["content"]] == [block.type for block in reply.content]
    assert document["choices"][0]["finishReason"] == reply.stop_reason == "stop"


def test_reply_has_reasoning_details():
    with Client() as client:
        reply = client.chat("sim/anthropic", "What is 2 + 2?", effort="high")
    items = reply.reasoning_details()

    assert items == to_details(reply.message)
    assert [(type(item), item.carries_signed_payload()) for item in items] == [(ReasoningText, True)]
    assert items[0].text == reply.thinking
    assert with_details(without_details(reply.message), items) == reply.message
