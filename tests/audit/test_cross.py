"""Traces of another provider, and of what was broken on the way, in requests of every dialect."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.audit.cross import CHECKS, UNSEEN
from tenuto.audit.looking import Sent, look
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
from tenuto.core.rules import rules

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


def told(to: Target, body: dict[str, Any], *replies: AssistantMessage) -> list[tuple[str, str]]:
    return [(found.rule, found.pointer) for found in look(Sent(to, body, {}, replies), CHECKS)]


def use(id: str = "call_1", args: str = ARGS, **more) -> ToolUse:
    return ToolUse(id, "f", args, **more)


# --- one conversation in every dialect --------------------------------------------------------------------------------


def anthropic(id: str, written: Any, token: str) -> list[dict]:
    thought = [{"type": "thinking", "thinking": "Hm", "signature": token}] if token else []
    return [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": [*thought, {"type": "tool_use", "id": id, "name": "f", "input": written}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "12"}]},
    ]


def responses(id: str, written: Any, token: str) -> list[dict]:
    thought = {"type": "reasoning", "summary": [], **({"encrypted_content": token} if token else {})}
    return [
        {"role": "user", "content": "Hello"},
        thought,
        {"type": "function_call", "call_id": id, "name": "f", "arguments": written},
        {"type": "function_call_output", "call_id": id, "output": "12"},
    ]


def chat(id: str, written: Any, token: str) -> list[dict]:
    details = [{"type": "reasoning.encrypted", "data": token}] if token else []
    made = [{"id": id, "type": "function", "function": {"name": "f", "arguments": written}}]
    return [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "reasoning_content": "", "tool_calls": made, "reasoning_details": details},
        {"role": "tool", "tool_call_id": id, "content": "12"},
    ]


def gemini(id: str, written: Any, token: str) -> list[dict]:
    signed = {"thoughtSignature": token or "skip_thought_signature_validator"}
    return [
        {"role": "user", "parts": [{"text": "Hello"}]},
        {"role": "model", "parts": [{"functionCall": {"id": id, "name": "f", "args": written}, **signed}]},
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
ANSWER = {
    "anthropic-messages": "/messages/2/content/0/tool_use_id",
    "openai-responses": "/input/3/call_id",
    "openai-chat": "/messages/2/tool_call_id",
    "gemini": "/contents/2/parts/0/functionResponse/id",
}
SEALED = {
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


def body(dialect: Dialect, id: str = "call_1", written: str = ARGS, token: str = "") -> dict[str, Any]:
    key, write, as_text = WRITERS[dialect]
    return {key: write(id, written if as_text else json.loads(written), token)}


def thought(dialect: Dialect, token: str = TOKEN) -> Reasoning:
    return Reasoning("Hm", meta=METAS[dialect](token))


def test_every_rule_is_looked_at_or_cannot_be_seen():
    assert {row.id for row in rules().values() if row.dialect == "cross"} == CHECKS.keys() | UNSEEN.keys()
    assert not CHECKS.keys() & UNSEEN.keys()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_comes_back_as_it_was_given_is_not_faulted(dialect):
    to = target(dialect)
    reply = own(to, thought(dialect), use())

    assert told(to, body(dialect, token=TOKEN), reply) == []
    assert told(to, body(dialect), foreign(Reasoning("Hm", meta=AnthropicMeta(TOKEN)), use())) == []
    assert told(to, body(dialect, token=TOKEN)) == []


# --- what another provider gave ---------------------------------------------------------------------------------------


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
def test_ids_of_another_provider_fit(dialect, name, id, fits):
    to = target(dialect, name)
    places = [] if fits else [("XP-01", CALL[dialect]), ("XP-01", ANSWER[dialect])]

    assert told(to, body(dialect, id), foreign(use(id))) == places
    assert told(to, body(dialect, id), own(to, use(id))) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_token_goes_back_to_whom_gave_it(dialect):
    to = target(dialect)
    sent = body(dialect, token=TOKEN)

    assert told(to, sent, foreign(thought(dialect), use())) == [("XP-02", SEALED[dialect])]
    assert told(to, sent, own(to, thought(dialect), use()), foreign(thought(dialect))) == []


@pytest.mark.parametrize("scope", ["account", "platform"])
def test_another_account_or_host_is_another_issuer(scope):
    to = msgspec.structs.replace(target("openai-responses"), **{scope: "mine"})
    reply = own(to, thought("openai-responses"), use())
    theirs = msgspec.structs.replace(reply, origin=msgspec.structs.replace(reply.origin, **{scope: "yours"}))
    mine = msgspec.structs.replace(reply, origin=msgspec.structs.replace(reply.origin, **{scope: "mine"}))
    sent = body("openai-responses", token=TOKEN)

    assert told(to, sent, theirs) == [("XP-02", SEALED["openai-responses"])]
    assert told(to, sent, mine) == []
    assert told(to, sent, reply) == []  # nobody knows


def test_withheld_thinking_is_a_token_and_a_picture_is_none():
    to = target("anthropic-messages")
    blocks = [
        {"type": "redacted_thinking", "data": TOKEN},
        {"type": "image", "source": {"type": "base64", "data": TOKEN}},
    ]
    sent = {"messages": [{"role": "assistant", "content": blocks}]}

    assert told(to, sent, foreign(Reasoning(meta=AnthropicRedactedMeta(TOKEN)))) == [
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
def test_calls_of_another_have_an_empty_reasoning_where_one_is_wanted(name, more, wanted):
    to = target("openai-chat", name)
    sent = body("openai-chat") | more
    del sent["messages"][1]["reasoning_content"]

    assert told(to, sent, foreign(use())) == ([("XP-03", "/messages/1")] if wanted else [])
    assert told(to, sent, foreign(), own(to, use())) == []
    assert told(to, sent) == []


@pytest.mark.parametrize(("name", "signed"), [("", True), ("google/gemini-2.5-flash", False)])
def test_the_first_call_of_each_step_of_the_current_turn_has_a_stand_in(name, signed):
    to = target("gemini", name)
    sent = body("gemini")
    asked, made, answer = sent["contents"]
    bare = {"role": "model", "parts": [{"functionCall": made["parts"][0]["functionCall"]}] * 2}
    turn = {"contents": [asked, bare, answer, bare, answer]}

    assert told(to, turn, foreign(use())) == ([("XP-04", "/contents/1"), ("XP-04", "/contents/3")] if signed else [])
    assert told(to, {"contents": [asked, made, bare, answer]}, foreign(use())) == []  # one step
    assert told(to, {"contents": [asked, bare, answer, asked]}, foreign(use())) == []  # an earlier turn
    assert told(to, turn, foreign(), own(to, use())) == []


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("other", DIALECTS)
def test_what_was_made_for_another_dialect_is_not_sent(dialect, other):
    differs = WRITERS[dialect][0] != WRITERS[other][0]

    assert told(target(dialect), body(other)) == ([("XP-05", "/")] if differs else [])


# --- what was broken on the way ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("token", "hidden"),
    [
        (TOKEN, False),
        (TOKEN[:12] + "***" + TOKEN[-12:], True),
        (TOKEN[:10] + "[REDACTED]", True),
        ("…" + TOKEN[-8:], True),
        (TOKEN[:-1], False),  # changed, but by no filter
        ("a token of nobody's", False),
    ],
)
def test_a_filter_that_hid_part_of_a_token_is_found(dialect, token, hidden):
    to = target(dialect)
    found = told(to, body(dialect, token=token), own(to, thought(dialect), use()))

    assert found == ([("XP-06", SEALED[dialect])] if hidden else [])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_call_of_a_turn_that_was_broken_off_is_not_left_open(dialect):
    to = target(dialect)
    sent = body(dialect)
    key = WRITERS[dialect][0]
    open_ = {key: sent[key][:-1]}

    assert told(to, open_, own(to, use(), incomplete=True)) == [("XP-07", CALL[dialect])]
    assert told(to, sent, own(to, use(), incomplete=True)) == []
    assert told(to, open_, own(to, use())) == []


def test_half_of_the_arguments_and_an_unsigned_thought_are_not_sent():
    to = target("openai-chat")
    half = use(args='{"a', args_error="it ends early")
    assert told(to, body("openai-chat", written='{"a'), own(to, half, incomplete=True)) == [
        ("XP-07", CALL["openai-chat"])
    ]

    to = target("anthropic-messages")
    said = {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm"}]}
    assert told(to, {"messages": [said]}, own(to, Reasoning("Hm"), incomplete=True)) == [
        ("XP-07", "/messages/0/content/0")
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_history_is_not_cut_between_a_call_and_its_answer(dialect):
    to = target(dialect)
    sent = body(dialect)
    key = WRITERS[dialect][0]
    cut = {key: sent[key][-1:]}
    pointer = ANSWER[dialect].split("/", 3)

    assert told(to, cut, own(to, use())) == [("XP-08", f"/{key}/0/{pointer[3]}")]
    assert told(to, cut, own(to, use("call_other"))) == []
    if dialect == "openai-responses":
        assert told(to, cut | {"previous_response_id": "resp_1"}, own(to, use())) == []


@pytest.mark.parametrize(
    ("dialect", "written", "anew"),
    [(dialect, written, anew) for dialect in DIALECTS for written, anew in [
        (ARGS, False),
        ('{"a": 2, "b": 1}', True),
        ('{"a": 2, "b": 3}', False),
    ]] + [("openai-chat", '{"b":1,"a":2}', True), ("gemini", '{"b":1,"a":2}', False), ("openai-responses", '{"b":1,', False)],
)  # fmt: skip
def test_arguments_go_back_as_they_were_written(dialect, written, anew):
    to = target(dialect)

    assert told(to, body(dialect, written=written), own(to, use())) == ([("XP-09", CALL[dialect])] if anew else [])


# --- any shape --------------------------------------------------------------------------------------------------------

KEY = st.sampled_from(
    [
        *("messages", "input", "contents", "role", "content", "parts", "type", "id", "name", "tool_calls", "function"),
        *(
            "arguments",
            "call_id",
            "tool_call_id",
            "tool_use_id",
            "functionCall",
            "functionResponse",
            "args",
            "thinking",
        ),
        *("signature", "encrypted_content", "thoughtSignature", "data", "text", "previous_response_id"),
    ]
)
LEAF = st.sampled_from(
    [
        *("assistant", "model", "user", "tool", "tool_use", "tool_result", "function_call", "redacted_thinking"),
        *("thinking", "call_1", ARGS, TOKEN, TOKEN[:10] + "*", "", "\ud800", None, True, 0, -1.5, 10**400, [], {}),
    ]
)
JSON = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=4), max_leaves=8
)
LISTED = st.lists(st.dictionaries(KEY, JSON, max_size=5), max_size=3)
BODIES = st.dictionaries(st.sampled_from(["messages", "input", "contents", "thinking"]), LISTED | JSON, max_size=3)


@given(BODIES, st.sampled_from(DIALECTS))
def test_no_body_is_too_strange_to_be_looked_at(sent, dialect):
    to = target(dialect)
    replies = (foreign(thought(dialect), use()), own(to, use("call_2"), incomplete=True))
    for rule, pointer in told(to, sent, *replies):
        assert rule in CHECKS
        assert pointer.startswith("/")
