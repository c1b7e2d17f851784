"""Responses rules that need the replies of a transcript, and bodies of any shape."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tenuto.audit import Finding, audit_body
from tenuto.catalog import resolve
from tenuto.core.blocks import OpenAiMeta, Reasoning, ServerToolUse, Text, ToolUse
from tenuto.core.messages import AssistantMessage, Origin
from tenuto.core.provider import Target

DIALECT = "openai-responses"
USER = {"role": "user", "content": "Hello"}
CALL = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "12"}


def target(name: str) -> Target:
    return msgspec.structs.replace(resolve(f"sim/{name}", dialect=DIALECT), account="mine", platform="here.example")


def reply(*blocks: Any, **scope: str) -> AssistantMessage:
    origin = Origin(**{"provider": "sim", "dialect": DIALECT, "model": "openai", **scope})
    return AssistantMessage(blocks, origin=origin)


def turn(n: int) -> AssistantMessage:
    """Reasoning and a call."""
    meta = OpenAiMeta(f"rs_{n}", f"gAAAA{n}")
    return reply(Reasoning("Hm", meta=meta), ToolUse(f"call_{n}", "f", "{}", meta=OpenAiMeta(f"fc_{n}")))


def sent(n: int) -> list[dict[str, Any]]:
    """The items of a turn and the output of its call."""
    return [
        {"type": "reasoning", "id": f"rs_{n}", "encrypted_content": f"gAAAA{n}", "summary": []},
        {**CALL, "id": f"fc_{n}", "call_id": f"call_{n}"},
        {**OUTPUT, "call_id": f"call_{n}"},
    ]


def audit(body: dict[str, Any], *replies: AssistantMessage, to: str = "openai") -> list[tuple[str, str]]:
    return places(audit_body({"store": False, **body}, target(to), replies=replies), "refused")


def places(findings: tuple[Finding, ...], severity: str) -> list[tuple[str, str]]:
    return [(finding.rule, finding.pointer) for finding in findings if finding.severity == severity]


# --- reasoning --------------------------------------------------------------------------------------------------------

TURNS = [turn(n) for n in range(4)]
INPUT = [USER, *(item for n in range(4) for item in sent(n))]


@pytest.mark.parametrize("n", range(4))
def test_lost_or_altered_reasoning_is_found_in_each_turn(n):
    at = 1 + 3 * n
    altered = [*INPUT[:at], {**INPUT[at], "encrypted_content": "gBBBB"}, *INPUT[at + 1 :]]

    assert audit({"input": INPUT}, *TURNS) == []
    assert audit({"input": INPUT[:at] + INPUT[at + 1 :]}, *TURNS) == [("OAR-REAS-01", f"/input/{at}/id")]
    assert audit({"input": INPUT[: at + 1]}, *TURNS) == [("OAR-REAS-03", f"/input/{at}")]
    assert audit({"input": altered}, *TURNS) == [("OAR-REAS-05", f"/input/{at}/encrypted_content")]


def test_ids_replies_and_empty_texts_may_be_missing():
    bare = [{key: value for key, value in item.items() if key != "id"} for item in INPUT]
    altered = {**INPUT[1], "encrypted_content": "gBBBB"}
    thinking, call = turn(0).blocks

    assert audit({"input": bare}, *TURNS) == []
    assert audit({"input": [USER, altered, *INPUT[2:4], *INPUT[5:7]]}) == []
    assert audit({"input": [USER, *sent(0)]}, reply(thinking, Text(""), call)) == []


@pytest.mark.parametrize(
    ("scope", "refused"),
    [({}, False), ({"account": "yours"}, True), ({"platform": "other.example"}, True), ({"model": "azure"}, True)],
)
def test_encrypted_content_is_valid_only_for_its_issuer(scope, refused):
    blocks = turn(0).blocks
    found = audit({"input": [USER, *sent(0)]}, reply(*blocks, **scope))

    assert (("OAR-REAS-05", "/input/1/encrypted_content") in found) is refused


def test_item_far_from_lost_reasoning_is_uncertain():
    message = Text("Hi", meta=OpenAiMeta("msg_0"), extra='{"item": {"role": "assistant"}}')
    item = {"type": "message", "id": "msg_0", "role": "assistant", "content": "Hi"}
    findings = audit_body({"input": [USER, item]}, target("openai"), replies=(reply(*turn(0).blocks, message),))

    assert places(findings, "warned") == [("OAR-REAS-02", "/input/1/id")]


@pytest.mark.parametrize(
    ("name", "context", "reported"),
    [
        ("openai/gpt-5", None, True),
        ("azure/o3", "auto", True),
        ("openai/gpt-5", "all_turns", False),
        ("openai/gpt-5.6", None, False),
        ("openai/gpt-6-sol", "auto", False),
        ("openai/gpt-5.6", "current_turn", True),
        ("openai", None, False),
        ("azure/my-deployment", None, False),
    ],
)
def test_ignored_reasoning_of_earlier_turns_is_a_warning(name, context, reported):
    body = {"input": [USER, *sent(0), USER], "reasoning": {"context": context}}
    findings = audit_body(body, target(name))

    assert places(findings, "warned") == ([("OAR-REAS-11", "/input/1")] if reported else [])


# --- items of replies -------------------------------------------------------------------------------------------------


def test_dropped_phase_and_namespace_are_found():
    message = Text("Hi", meta=OpenAiMeta("msg_1"), extra='{"item": {"phase": "final_answer"}}')
    call = ToolUse("call_1", "f", "{}", extra='{"namespace": "ns"}', meta=OpenAiMeta("fc_1"))
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": "Hi"}

    findings = audit_body({"input": [USER, item, CALL, OUTPUT]}, target("openai"), replies=(reply(message, call),))
    assert places(findings, "lost") == [("OAR-ITEM-07", "/input/1/phase")]
    assert places(findings, "refused") == [("OAR-ITEM-08", "/input/2/namespace")]
    complete = [USER, {**item, "phase": "final_answer"}, {**CALL, "namespace": "ns"}, OUTPUT]
    assert audit_body({"input": complete}, target("openai"), replies=(reply(message, call),)) == ()


def test_items_of_the_previous_response_are_not_sent_again():
    previous = {"previous_response_id": "resp_1", "store": True}
    other = {**OUTPUT, "call_id": "call_other"}
    thinking, call, output = sent(0)

    assert audit({"input": [output], **previous}, turn(0)) == []
    assert audit({"input": [USER], **previous}, turn(0)) == [("OAR-TOOL-01", "/previous_response_id")]
    assert audit({"input": [other, output], **previous}, turn(0)) == [("OAR-TOOL-02", "/input/0/call_id")]
    assert audit({"input": [thinking, call, output], **previous}, turn(0)) == [
        ("OAR-ITEM-01", "/input/0/id"),
        ("OAR-ITEM-01", "/input/1/id"),
    ]


def test_output_may_answer_a_referenced_call():
    reference = {"type": "item_reference", "id": "fc_0"}

    assert audit({"input": [USER, reference, sent(0)[2]], "store": None}, turn(0)) == []
    assert audit({"input": [USER, sent(0)[2], reference], "store": None}) == [("OAR-TOOL-02", "/input/1/call_id")]


def test_items_of_another_provider_are_not_stored_here():
    other = {"provider": "another", "dialect": "anthropic-messages"}
    body = {"input": [USER], "previous_response_id": "resp_1"}
    reference = {"input": [USER, {"type": "item_reference", "id": "ws_9"}]}
    search = reply(ServerToolUse("ws_9", "web_search"), **other)

    assert audit(body, reply(Text("Hi"), **other)) == [("OAR-PARAM-06", "/previous_response_id")]
    assert audit(body, reply(Text("Hi"), **other), reply(Text("Hi"))) == []
    assert places(audit_body(reference, target("openai"), replies=(search,)), "warned") == [
        ("OAR-ITEM-04", "/input/1/id")
    ]


# --- models -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "platform", "severity"),
    [
        ("openai/no-such-model", "", "refused"),
        ("openai/no-such-model", "api.openai.com", "refused"),
        ("openai/no-such-model", "localhost:8080", None),
        ("openai/gpt-5.2", "", None),
        ("openai/gpt-9-nova", "", "warned"),
        ("openai/ft:gpt-4o-mini:acme::x", "", None),
        ("azure/no-such-model", "", None),
        ("xai/no-such-model", "", None),
    ],
)
def test_unknown_models_are_refused_only_outside_the_pattern(name, platform, severity):
    to = msgspec.structs.replace(resolve(name, dialect=DIALECT), platform=platform)

    assert [finding.severity for finding in audit_body({"input": "x"}, to)] == [severity] * (severity is not None)


@pytest.mark.parametrize(
    ("name", "body", "pointers"),
    [
        ("openai/gpt-5", {"temperature": 1, "top_p": None}, ["/temperature"]),
        ("openai/gpt-5.5", {"top_logprobs": 2}, ["/top_logprobs"]),
        ("openai/gpt-5.5", {"top_logprobs": 2, "reasoning": {"effort": "none"}}, []),
        ("openai/gpt-5.4", {"temperature": 1}, []),
        ("azure/o3", {"temperature": 1, "include": ["message.output_text.logprobs"]}, ["/temperature", "/include"]),
        ("openai", {"temperature": 1}, []),
        ("openai/gpt-4o", {"temperature": 1}, []),
    ],
)
def test_reasoning_models_refuse_sampling(name, body, pointers):
    assert audit({"input": "x", **body}, to=name) == [("OAR-PARAM-01", pointer) for pointer in pointers]


def test_key_with_a_slash_is_escaped():
    assert audit({"input": "x", "a/b~c": 1}) == [("OAR-PARAM-10", "/a~1b~0c")]
