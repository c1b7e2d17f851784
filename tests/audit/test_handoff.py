"""The cross-provider rules, in requests of every dialect."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tenuto.audit import audit_body
from tenuto.catalog import resolve
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    ChatMeta,
    GeminiMeta,
    OpenAiMeta,
    Reasoning,
    ToolUse,
)
from tenuto.core.messages import AssistantMessage, Origin
from tenuto.core.provider import Dialect, Target

TARGETS: dict[Dialect, str] = {
    "anthropic-messages": "anthropic/claude-opus-4-6",
    "openai-responses": "openai/gpt-5.5",
    "openai-chat": "deepseek/deepseek-v4-pro",
    "gemini": "google/gemini-3-flash-preview",
}
DIALECTS = list(TARGETS)
ARGS = '{"b": 1, "a": 2}'
TOKEN = "EqQBCgIYAhIkNDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0"


def target(dialect: Dialect, name: str = "") -> Target:
    return resolve(name or TARGETS[dialect], dialect=dialect)


def own(to: Target, *blocks, **more) -> AssistantMessage:
    return AssistantMessage(blocks, origin=Origin(to.provider.name, to.dialect, to.model), **more)


def foreign(*blocks, **more) -> AssistantMessage:
    return AssistantMessage(blocks, origin=Origin("another", "another-dialect", "model"), **more)


def cross_findings(to: Target, body: dict[str, Any], *replies: AssistantMessage) -> list[tuple[str, str]]:
    findings = audit_body(body, to, replies=replies)
    return [(finding.rule, finding.pointer) for finding in findings if finding.rule.startswith("XP-")]


def use(id: str = "call_1", args: str = ARGS, **more) -> ToolUse:
    return ToolUse(id, "f", args, **more)


# --- one conversation in every dialect --------------------------------------------------------------------------------


def anthropic(id: str, args: Any, token: str) -> list[dict]:
    thought = [{"type": "thinking", "thinking": "Hm", "signature": token}] if token else []
    return [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": [*thought, {"type": "tool_use", "id": id, "name": "f", "input": args}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "12"}]},
    ]


def responses(id: str, args: Any, token: str) -> list[dict]:
    thought = {"type": "reasoning", "summary": [], **({"encrypted_content": token} if token else {})}
    return [
        {"role": "user", "content": "Hello"},
        thought,
        {"type": "function_call", "call_id": id, "name": "f", "arguments": args},
        {"type": "function_call_output", "call_id": id, "output": "12"},
    ]


def chat(id: str, args: Any, token: str) -> list[dict]:
    details = [{"type": "reasoning.encrypted", "data": token}] if token else []
    made = [{"id": id, "type": "function", "function": {"name": "f", "arguments": args}}]
    return [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "reasoning_content": "", "tool_calls": made, "reasoning_details": details},
        {"role": "tool", "tool_call_id": id, "content": "12"},
    ]


def gemini(id: str, args: Any, token: str) -> list[dict]:
    signed = {"thoughtSignature": token or "skip_thought_signature_validator"}
    return [
        {"role": "user", "parts": [{"text": "Hello"}]},
        {"role": "model", "parts": [{"functionCall": {"id": id, "name": "f", "args": args}, **signed}]},
        {"role": "user", "parts": [{"functionResponse": {"id": id, "name": "f", "response": {"output": "12"}}}]},
    ]


WRITERS = {
    "anthropic-messages": ("messages", anthropic, False),
    "openai-responses": ("input", responses, True),
    "openai-chat": ("messages", chat, True),
    "gemini": ("contents", gemini, False),
}
CALL = {
    "anthropic-messages": "/messages/1/content/0/id",
    "openai-responses": "/input/2/call_id",
    "openai-chat": "/messages/1/tool_calls/0/id",
    "gemini": "/contents/1/parts/0/functionCall/id",
}
RESULT = {
    "anthropic-messages": "/messages/2/content/0/tool_use_id",
    "openai-responses": "/input/3/call_id",
    "openai-chat": "/messages/2/tool_call_id",
    "gemini": "/contents/2/parts/0/functionResponse/id",
}
TOKENS = {
    "anthropic-messages": "/messages/1/content/0/signature",
    "openai-responses": "/input/1/encrypted_content",
    "openai-chat": "/messages/1/reasoning_details/0/data",
    "gemini": "/contents/1/parts/0/thoughtSignature",
}
METAS = {
    "anthropic-messages": AnthropicMeta,
    "openai-responses": lambda token: OpenAiMeta("rs_1", token),
    "openai-chat": lambda token: ChatMeta(details=json.dumps([{"type": "reasoning.encrypted", "data": token}])),
    "gemini": GeminiMeta,
}


def body(dialect: Dialect, id: str = "call_1", args: str = ARGS, token: str = "") -> dict[str, Any]:
    key, write, as_text = WRITERS[dialect]
    return {key: write(id, args if as_text else json.loads(args), token)}


def reasoning(dialect: Dialect, token: str = TOKEN) -> Reasoning:
    return Reasoning("Hm", meta=METAS[dialect](token))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_unchanged_history_has_no_findings(dialect):
    to = target(dialect)
    reply = own(to, reasoning(dialect), use())

    assert cross_findings(to, body(dialect, token=TOKEN), reply) == []
    assert cross_findings(to, body(dialect), foreign(Reasoning("Hm", meta=AnthropicMeta(TOKEN)), use())) == []
    assert cross_findings(to, body(dialect, token=TOKEN)) == []


# --- content of another provider --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "name", "id", "fits"),
    [
        ("anthropic-messages", "", "functions.f:0", False),
        ("anthropic-messages", "", "call_" + "x" * 70, True),
        ("openai-responses", "", "functions.f:0", True),
        ("openai-responses", "", "call_" + "x" * 60, False),
        ("openai-responses", "xai/grok-4.3", "call_" + "x" * 60, True),
        ("openai-chat", "", "functions.f:0", True),
        ("openai-chat", "", "call_" + "x" * 60, False),
        ("openai-chat", "mistral/mistral-large-latest", "call_1", False),
        ("openai-chat", "mistral/mistral-large-latest", "abcdef123", True),
        ("gemini", "", "functions.f:0" + "x" * 70, True),
    ],
)
def test_foreign_call_ids_are_checked(dialect, name, id, fits):
    to = target(dialect, name)
    places = [] if fits else [("XP-01", CALL[dialect]), ("XP-01", RESULT[dialect])]

    assert cross_findings(to, body(dialect, id), foreign(use(id))) == places
    assert cross_findings(to, body(dialect, id), own(to, use(id))) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_foreign_token_is_reported(dialect):
    to = target(dialect)
    sent = body(dialect, token=TOKEN)

    assert cross_findings(to, sent, foreign(reasoning(dialect), use())) == [("XP-02", TOKENS[dialect])]
    assert cross_findings(to, sent, own(to, reasoning(dialect), use()), foreign(reasoning(dialect))) == []


@pytest.mark.parametrize("scope", ["account", "platform"])
def test_account_and_host_belong_to_the_issuer(scope):
    to = msgspec.structs.replace(target("openai-responses"), **{scope: "mine"})
    reply = own(to, reasoning("openai-responses"), use())
    theirs = msgspec.structs.replace(reply, origin=msgspec.structs.replace(reply.origin, **{scope: "yours"}))
    mine = msgspec.structs.replace(reply, origin=msgspec.structs.replace(reply.origin, **{scope: "mine"}))
    sent = body("openai-responses", token=TOKEN)

    assert cross_findings(to, sent, theirs) == [("XP-02", TOKENS["openai-responses"])]
    assert cross_findings(to, sent, mine) == []
    assert cross_findings(to, sent, reply) == []  # unknown


def test_redacted_thinking_is_a_token_image_data_is_not():
    to = target("anthropic-messages")
    blocks = [
        {"type": "redacted_thinking", "data": TOKEN},
        {"type": "image", "source": {"type": "base64", "data": TOKEN}},
    ]
    sent = {"messages": [{"role": "assistant", "content": blocks}]}

    assert cross_findings(to, sent, foreign(Reasoning(meta=AnthropicRedactedMeta(TOKEN)))) == [
        ("XP-02", "/messages/0/content/0/data")
    ]


@pytest.mark.parametrize(
    ("name", "more", "wanted"),
    [
        ("deepseek/deepseek-v4-pro", {}, True),
        ("moonshot/kimi-k3", {}, True),
        ("deepseek/deepseek-v4-pro", {"thinking": {"type": "disabled"}}, False),
        ("deepseek/deepseek-chat", {}, False),
        ("deepseek/deepseek-reasoner", {}, False),
        ("groq/llama-3.3-70b-versatile", {}, False),
    ],
)
def test_foreign_calls_need_reasoning_content(name, more, wanted):
    to = target("openai-chat", name)
    sent = body("openai-chat") | more
    del sent["messages"][1]["reasoning_content"]

    assert cross_findings(to, sent, foreign(use())) == ([("XP-03", "/messages/1")] if wanted else [])
    assert cross_findings(to, sent, foreign(), own(to, use())) == []
    assert cross_findings(to, sent) == []


@pytest.mark.parametrize(("name", "signed"), [("", True), ("google/gemini-2.5-flash", False)])
def test_foreign_gemini_calls_need_a_placeholder(name, signed):
    to = target("gemini", name)
    sent = body("gemini")
    asked, made, answer = sent["contents"]
    bare = {"role": "model", "parts": [{"functionCall": made["parts"][0]["functionCall"]}] * 2}
    turn = {"contents": [asked, bare, answer, bare, answer]}

    assert cross_findings(to, turn, foreign(use())) == (
        [("XP-04", "/contents/1"), ("XP-04", "/contents/3")] if signed else []
    )
    assert cross_findings(to, {"contents": [asked, made, bare, answer]}, foreign(use())) == []  # one step
    assert cross_findings(to, {"contents": [asked, bare, answer, asked]}, foreign(use())) == []  # an earlier turn
    assert cross_findings(to, turn, foreign(), own(to, use())) == []


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("other", DIALECTS)
def test_body_of_another_dialect_is_reported(dialect, other):
    differs = WRITERS[dialect][0] != WRITERS[other][0]

    found = cross_findings(target(dialect), body(other), own(target(dialect), use()))

    assert [rule for rule, _ in found if rule == "XP-05"] == (["XP-05"] if differs else [])


# --- an altered or shortened history ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("token", "hidden"),
    [
        (TOKEN, False),
        (TOKEN[:12] + "***" + TOKEN[-12:], True),
        (TOKEN[:10] + "[REDACTED]", True),
        ("…" + TOKEN[-8:], True),
        (TOKEN[:-1], False),  # changed, but by no filter
        ("a token without issuer", False),
    ],
)
def test_redacted_token_is_reported(dialect, token, hidden):
    to = target(dialect)
    found = cross_findings(to, body(dialect, token=token), own(to, reasoning(dialect), use()))

    assert found == ([("XP-06", TOKENS[dialect])] if hidden else [])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_open_call_of_interrupted_turn_is_reported(dialect):
    to = target(dialect)
    sent = body(dialect)
    key = WRITERS[dialect][0]
    open_ = {key: sent[key][:-1]}

    assert cross_findings(to, open_, own(to, use(), incomplete=True)) == [("XP-07", CALL[dialect])]
    assert cross_findings(to, sent, own(to, use(), incomplete=True)) == []
    assert cross_findings(to, open_, own(to, use())) == []


def test_half_arguments_and_unsigned_thinking_are_reported():
    to = target("openai-chat")
    half = use(args='{"a', args_error="it ends early")
    assert cross_findings(to, body("openai-chat", args='{"a'), own(to, half, incomplete=True)) == [
        ("XP-07", CALL["openai-chat"])
    ]

    to = target("anthropic-messages")
    said = {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm"}]}
    assert cross_findings(to, {"messages": [said]}, own(to, Reasoning("Hm"), incomplete=True)) == [
        ("XP-07", "/messages/0/content/0")
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_result_without_its_call_is_reported(dialect):
    to = target(dialect)
    sent = body(dialect)
    key = WRITERS[dialect][0]
    cut = {key: sent[key][-1:]}
    pointer = RESULT[dialect].split("/", 3)

    assert cross_findings(to, cut, own(to, use())) == [("XP-08", f"/{key}/0/{pointer[3]}")]
    assert cross_findings(to, cut, own(to, use("call_other"))) == []
    if dialect == "openai-responses":
        assert cross_findings(to, cut | {"previous_response_id": "resp_1"}, own(to, use())) == []


@pytest.mark.parametrize(
    ("dialect", "args", "rewritten"),
    [(dialect, args, rewritten) for dialect in DIALECTS for args, rewritten in [
        (ARGS, False),
        ('{"a": 2, "b": 1}', True),
        ('{"a": 2, "b": 3}', False),
    ]] + [("openai-chat", '{"b":1,"a":2}', True), ("gemini", '{"b":1,"a":2}', False), ("openai-responses", '{"b":1,', False)],
)  # fmt: skip
def test_reargs_arguments_are_reported(dialect, args, rewritten):
    to = target(dialect)

    assert cross_findings(to, body(dialect, args=args), own(to, use())) == (
        [("XP-09", CALL[dialect])] if rewritten else []
    )
