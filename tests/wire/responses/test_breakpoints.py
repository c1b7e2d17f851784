"""The prompt cache of models with breakpoints: marks, lifetimes, and the response to compare with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenuto.core.blocks import Image, Text, ToolUse
from tenuto.core.messages import AssistantMessage, SystemMessage, ToolCallView, ToolResults, UserMessage, user
from tenuto.core.provider import ModelTraits, Provider, ResponsesSwitches, Target
from tenuto.core.request import ChatRequest, NativeCompaction, ToolDefinition
from tenuto.oneshot import decode
from tenuto.wire.codec import codec_for
from tenuto.wire.write import write_request

MARK = {"mode": "explicit"}
SWITCHES = ResponsesSwitches(cache_key=True, cache_options=True, compaction=True)


def _target(*, cache_breakpoints: bool = True, switches: ResponsesSwitches = SWITCHES) -> Target:
    traits = ModelTraits(known=True, cache_breakpoints=cache_breakpoints)
    return Target(Provider("here", "openai-responses", "", responses=switches), "m", "openai-responses", traits)


def _request(*messages: Any, **fields: Any) -> ChatRequest:
    return ChatRequest(model="here/m", messages=messages or (SystemMessage("Be brief."), user("Hi.")), **fields)


def _body(*messages: Any, **fields: Any) -> dict[str, Any]:
    wire = write_request(_request(*messages, **fields), _target())
    assert not wire.losses
    return json.loads(wire.body)


def test_auto_marks_the_end_of_the_system_prompt():
    body = _body(cache="auto")

    assert body["input"][0]["content"] == [{"type": "input_text", "text": "Be brief.", "prompt_cache_breakpoint": MARK}]
    assert body["input"][1]["content"] == "Hi."
    assert "prompt_cache_options" not in body
    assert body["prompt_cache_key"] == _key(_target(cache_breakpoints=False))


def _key(target: Target) -> str:
    return json.loads(write_request(_request(cache="auto"), target).body)["prompt_cache_key"]


@pytest.mark.parametrize(
    "target", [_target(cache_breakpoints=False), _target(switches=ResponsesSwitches(cache_key=True))]
)
def test_other_models_and_hosts_get_no_mark(target: Target):
    wire = write_request(_request(cache="auto"), target)

    assert not wire.losses
    assert b"breakpoint" not in wire.body


@pytest.mark.parametrize(
    ("system", "marks"),
    [
        (SystemMessage((Text("One."), Text("Two."))), [None, MARK]),
        (SystemMessage((Text("One."), Text("Two.", cache="1h"))), [None, {**MARK, "ttl": "12h"}]),
        (SystemMessage((Text("One.", cache="5m"), Text("Two."))), [MARK, MARK]),
    ],
)
def test_own_marks_of_the_system_prompt_stay(system: SystemMessage, marks: list[Any]):
    parts = _body(system, user("Hi."), cache="auto")["input"][0]["content"]

    assert [part.get("prompt_cache_breakpoint") for part in parts] == marks


@pytest.mark.parametrize(
    "messages", [(user("Hi."),), (SystemMessage(""), user("Hi.")), (user("Hi."), SystemMessage("x"))]
)
def test_request_without_instructions_at_its_start_has_no_mark(messages: tuple[Any, ...]):
    assert "breakpoint" not in repr(_body(*messages, cache="auto"))


@pytest.mark.parametrize(
    ("cache", "options"),
    [
        ("auto", None),
        ("auto-1h", None),
        ("5m", {"ttl": "30m"}),
        ("1h", {"ttl": "12h"}),
        ("off", {"mode": "explicit"}),
        (None, None),
    ],
)
def test_lifetime_is_the_shortest_that_is_long_enough(cache: Any, options: Any):
    assert _body(cache=cache).get("prompt_cache_options") == options


def test_marks_of_parts_are_written_without_auto():
    result = ToolCallView("c", "f", "{}").answer((Text("42", cache="5m"),))
    parts = (Text("Long.", cache="5m"), Image(url="https://x.org/a.png", cache="1h"), Text("Short."))
    body = _body(UserMessage(parts), AssistantMessage((ToolUse("c", "f", "{}"),)), ToolResults((result,)))

    marks = [part.get("prompt_cache_breakpoint") for part in body["input"][0]["content"]]
    assert marks == [MARK, {**MARK, "ttl": "12h"}, None]
    assert body["input"][2]["output"][0]["prompt_cache_breakpoint"] == MARK


def test_mark_of_a_tool_is_a_loss():
    wire = write_request(_request(tools=(ToolDefinition("f", cache="5m"),)), _target())

    assert [(loss.kind, str(loss.location)) for loss in wire.losses] == [("implicit-cache", "tools[0]")]


@pytest.mark.parametrize(
    ("diagnosis", "options"),
    [("resp_1", {"comparison_response_id": "resp_1"}), ("msg_1", None), (True, None), (False, None)],
)
def test_comparison_needs_an_id_of_this_dialect(diagnosis: bool | str, options: Any):
    body = _body(cache="auto", cache_diagnosis=diagnosis)

    assert body.get("prompt_cache_options") == options
    assert ("prompt_cache_key" in body) is (not diagnosis)


def test_endpoint_for_compactions_gets_no_options():
    body = _body(cache="1h", compaction=NativeCompaction(endpoint=True))

    assert "prompt_cache_options" not in body


def test_placements_follow_the_marked_text():
    wire = write_request(_request(cache="auto"), _target(), trace=True)

    assert [place.pointer for place in wire.placements] == ["/input/0/content/0/text", "/input/1/content"]


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ({"type": "cache_miss", "reason": "tools_changed", "cache_missed_tokens": 9}, "tools_changed"),
        ({"type": "cache_hit"}, ""),
        ({"type": "comparison_response_not_found"}, "comparison_response_not_found"),
        (None, ""),
    ],
)
def test_reason_is_read_from_the_response(field: Any, reason: str):
    body = {"id": "resp_2", "object": "response", "status": "completed", "output": []}
    body |= {"prompt_cache_diagnostics": field}
    response = decode("openai-responses", json.dumps(body).encode())

    assert codec_for("openai-responses").cache_miss_reason(response) == reason
