"""The cause of a cache miss: the request for it, and its field in a reply."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenuto.core.messages import user
from tenuto.core.provider import AnthropicSwitches, Provider, Target
from tenuto.core.request import ChatRequest
from tenuto.oneshot import decode
from tenuto.wire.codec import codec_for
from tenuto.wire.write import write_request


def _target(*, cache_diagnosis: bool = True) -> Target:
    row = Provider("here", "anthropic-messages", "", anthropic=AnthropicSwitches(cache_diagnosis=cache_diagnosis))
    return Target(row, "m", "anthropic-messages")


@pytest.mark.parametrize(("value", "id"), [("msg_1", "msg_1"), ("resp_1", None), (True, None)])
def test_request_names_the_earlier_message_and_the_beta(value: bool | str, id: str | None):
    headers = {"anthropic-beta": "mine"}
    request = ChatRequest(model="here/m", messages=(user("Hi."),), cache_diagnosis=value, extra_headers=headers)
    wire = write_request(request, _target())

    assert json.loads(wire.body)["diagnostics"] == {"previous_message_id": id}
    assert wire.headers["anthropic-beta"] == "cache-diagnosis-2026-04-07,mine"
    assert not wire.losses


def test_host_without_diagnosis_gets_nothing():
    request = ChatRequest(model="here/m", messages=(user("Hi."),), cache_diagnosis="msg_1")
    wire = write_request(request, _target(cache_diagnosis=False))

    assert "diagnostics" not in json.loads(wire.body)
    assert "anthropic-beta" not in wire.headers
    assert [(loss.kind, str(loss.location)) for loss in wire.losses] == [("unsupported-parameter", "cache_diagnosis")]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, ""),
        ({"diagnostics": None}, ""),
        ({"diagnostics": {"cache_miss_reason": None}}, "pending"),
        (
            {"diagnostics": {"cache_miss_reason": {"type": "tools_changed", "cache_missed_input_tokens": 9}}},
            "tools_changed",
        ),
    ],
)
def test_reason_is_read_from_the_reply(fields: dict[str, Any], reason: str):
    message = {
        "id": "msg_2",
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": "end_turn",
        **fields,
    }
    response = decode("anthropic-messages", json.dumps(message).encode())

    assert codec_for("anthropic-messages").cache_miss_reason(response) == reason
