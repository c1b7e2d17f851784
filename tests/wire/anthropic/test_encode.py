"""Encode the Anthropic dialect: one test per switch and parameter.

tests/sdk runs each test without parameters again and checks the bodies: do not parametrize them.
"""

from __future__ import annotations

import json

import pytest

from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    Audio,
    CodeResult,
    Document,
    Image,
    Marker,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolUse,
)
from tenuto.core.messages import AssistantMessage, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.provider import AnthropicSwitches, ModelTraits, Provider, Target
from tenuto.core.request import ChatRequest, JsonSchema, NamedTool, ServerTool, Thinking, ToolDefinition
from tenuto.wire.anthropic.encode import encode
from tenuto.wire.body_builder import BodyBuilder
from tenuto.wire.decoder import decode_stream
from wire.anthropic.cases import STREAMS
from wire.anthropic.test_decode import decoder

JUDGES = []
"""Functions that check each body that these tests write: tests/sdk adds the types of the SDK."""
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolDefinition("weather", "Current weather.", SCHEMA)


def target(**traits) -> Target:
    row = Provider("here", "anthropic-messages", "", headers={"anthropic-version": "2023-06-01"})
    return Target(row, "claude-x", "anthropic-messages", ModelTraits(known=bool(traits), **traits))


def wire(*messages, to: Target | None = None, **fields):
    request = ChatRequest(model="claude-x", messages=messages or (UserMessage("Hi"),), **fields)
    return encode(BodyBuilder(request, to or target()))


def body(*messages, to: Target | None = None, **fields) -> dict:
    document = json.loads(wire(*messages, to=to, **fields).body)
    for judge in JUDGES:
        judge(document)
    return document


def loss_kinds(*messages, to: Target | None = None, **fields) -> list[str]:
    return [loss.kind for loss in wire(*messages, to=to, **fields).losses]


def test_plain_request():
    request = wire(UserMessage("Hi"))

    assert (request.method, request.path) == ("POST", "/messages")
    assert request.headers == {"anthropic-version": "2023-06-01", "content-type": "application/json"}
    assert body(UserMessage("Hi")) == {
        "model": "claude-x",
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    }
    assert request.losses == ()


def test_same_request_gives_same_bytes():
    assert wire(UserMessage("Hi"), tools=(WEATHER,)).body == wire(UserMessage("Hi"), tools=(WEATHER,)).body


def test_version_header_is_set_without_row_headers():
    """The row of a custom provider needs no headers."""
    bare = Target(Provider("mine", "anthropic-messages", "http://x"), "m", "anthropic-messages")

    assert wire(to=bare).headers["anthropic-version"] == "2023-06-01"


def test_replayed_turn_is_the_received_one():
    """P1, P2: the field names of the wire, in order; signatures and arguments are unchanged."""
    reply = decode_stream(decoder(), [STREAMS["thinking, call"]])
    raw = wire(UserMessage("?"), reply.message, ToolResults((ToolResult("toolu_1", "12 C"),))).body
    turn = json.loads(raw)["messages"][1]["content"]

    assert turn[0] == {"type": "thinking", "thinking": "Look it up.", "signature": "EqQB=="}
    assert [part["type"] for part in turn] == ["thinking", "text", "tool_use"]
    assert turn[2]["caller"] == {"type": "direct"}
    assert b'"input":{"city": "Oslo", "n": 1.10}' in raw


@pytest.mark.parametrize("name", ["search, citations", "redacted, interleaved", "compaction", "fallback"])
def test_replayed_blocks_are_complete(name):
    """Server tools, redacted thinking, compaction and fallback blocks."""
    reply = decode_stream(decoder(), [STREAMS[name]])
    results = tuple(ToolResult(call.id, "ok") for call in reply.message.tool_calls())
    fields = body(UserMessage("?"), reply.message, ToolResults(results) if results else UserMessage("continue"))

    assert len(fields["messages"][1]["content"]) == len(reply.message.blocks)


def test_results_come_first_and_adjacent_messages_merge():
    """C18: one user message follows the calls: first the results, then the other content."""
    calls = AssistantMessage((ToolUse("t1", "f", "{}"), ToolUse("t2", "f", "")))
    results = ToolResults(
        (ToolResult("t1", "1"), ToolResult("t2", (Text("2"), Image(url="https://x/y.png")), is_error=True))
    )
    messages = body(UserMessage("?"), calls, UserMessage("also this"), results, to=target())["messages"]

    assert [m["role"] for m in messages] == ["user", "assistant", "user"]
    assert [p["type"] for p in messages[2]["content"]] == ["tool_result", "tool_result", "text"]
    assert messages[2]["content"][0] == {"type": "tool_result", "tool_use_id": "t1", "content": "1", "is_error": False}
    assert messages[2]["content"][1]["is_error"] is True
    assert messages[1]["content"][1]["input"] == {}


def test_empty_result_has_no_content():
    """The provider refuses an empty list."""
    fields = body(AssistantMessage((ToolUse("t", "f", "{}"),)), ToolResults((ToolResult("t", ()),)))

    assert fields["messages"][1]["content"] == [{"type": "tool_result", "tool_use_id": "t", "is_error": False}]


def test_arguments_other_than_objects_are_wrapped():
    """`input` must be an object: it contains the text of the model."""
    turn = AssistantMessage((ToolUse("t", "f", '{"a": ', args_error="cut"), ToolUse("u", "f", "[1]")))
    content = body(turn, ToolResults((ToolResult("t"), ToolResult("u"))))["messages"][0]["content"]

    assert content[0]["input"] == {"INVALID_JSON": '{"a": '}
    assert content[1]["input"] == {"INVALID_JSON": "[1]"}
    assert loss_kinds(turn).count("arguments-not-an-object") == 2


def test_reasoning_without_signature_is_left_out():
    """The provider refuses it."""
    turn = AssistantMessage((Reasoning("Hm."), Text("Yes.")))

    assert body(turn, UserMessage("?"))["messages"][0]["content"] == [{"type": "text", "text": "Yes."}]
    assert loss_kinds(turn) == ["unsigned-reasoning"]


def test_empty_turn_is_not_sent():
    """The provider refuses empty text and empty messages."""
    fields = body(UserMessage("a"), AssistantMessage((Text(""), Refusal(""))), UserMessage("b"))

    assert fields["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]


def test_unsupported_blocks_are_losses():
    """A refusal is sent as text."""
    turn = AssistantMessage(
        (Refusal("No."), CodeResult("OK"), Opaque("gemini", "{}"), Opaque("anthropic-messages", '{"type":"x"}'))
    )
    request = wire(UserMessage("?"), turn)

    assert json.loads(request.body)["messages"][1]["content"] == [{"type": "text", "text": "No."}, {"type": "x"}]
    assert [loss.kind for loss in request.losses] == ["unsupported-content", "unreadable-block"]


def test_system_messages_move_to_the_top():
    """Later system messages stay in place if the model supports that; else they move with a loss."""
    messages = (SystemMessage("A"), SystemMessage("B"), UserMessage("Hi"), SystemMessage("C"))

    assert body(*messages)["system"] == "A\n\nB\n\nC"
    assert loss_kinds(*messages) == ["system-hoisted"]
    native = body(*messages, to=target(system_mid="native"))
    assert native["system"] == "A\n\nB"
    assert native["messages"][-1] == {"role": "system", "content": "C"}
    assert loss_kinds(
        UserMessage("a"), AssistantMessage((Text("b"),)), SystemMessage("c"), to=target(system_mid="native")
    ) == ["system-hoisted"]


def test_cache_control():
    """On system prompts, parts, tools and the whole request."""
    system = SystemMessage((Text("A", cache="1h"), Text("B")))
    user = UserMessage((Text("x", cache="5m"), Image(data="aGk=", mime="image/png")))
    fields = body(system, user, tools=(ToolDefinition("f", cache="1h"),), cache="auto")

    assert fields["system"] == [
        {"type": "text", "text": "A", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        {"type": "text", "text": "B"},
    ]
    assert fields["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "5m"}
    assert fields["tools"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert fields["cache_control"] == {"type": "ephemeral"}
    assert body(cache="1h")["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert "cache_control" not in body(cache="off")


@pytest.mark.parametrize(("cache", "ttl"), [("auto", {}), ("auto-1h", {"ttl": "1h"})])
def test_auto_cache_marks_the_system_prompt_and_the_end(cache, ttl):
    mark = {"type": "ephemeral", **ttl}
    fields = body(SystemMessage("A"), UserMessage("x"), cache=cache)

    assert fields["system"] == [{"type": "text", "text": "A", "cache_control": mark}]
    assert fields["cache_control"] == mark
    assert fields["messages"] == [{"role": "user", "content": [{"type": "text", "text": "x"}]}]
    assert "system" not in body(UserMessage("x"), cache=cache)


def test_auto_cache_leaves_room_for_marks_of_the_caller():
    four = tuple(ToolDefinition(name, cache="1h") for name in "abcd")

    assert "cache_control" not in body(UserMessage("x"), tools=four, cache="auto")
    assert body(UserMessage("x"), tools=four[:3], cache="auto-1h")["cache_control"]["ttl"] == "1h"
    short = UserMessage((Text("x", cache="5m"),))
    # a mark of an hour may not follow one of five minutes
    assert "ttl" not in body(short, cache="auto-1h")["cache_control"]


def test_host_without_cache_field_marks_the_last_block():
    switches = AnthropicSwitches(raw_predict="vertex-2023-10-16")
    vertex = Target(Provider("here", "anthropic-messages", "", anthropic=switches), "claude-x", "anthropic-messages")
    fields = json.loads(wire(SystemMessage("A"), UserMessage("x"), to=vertex, cache="auto").body)

    assert "cache_control" not in fields
    assert fields["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}


def test_images_and_documents():
    """Audio has no form in this dialect."""
    parts = (
        Image(data="aGk=", mime="image/jpeg"),
        Image(url="data:image/gif;base64,aGk="),
        Image(url="https://x/y.png"),
        Image(file_id="file_1"),
        Document(data="aGk=", title="T", context="C", citations=True),
        Document(text="plain"),
        Document(url="https://x/y.pdf"),
        Opaque("anthropic-messages", '{"type":"search_result","source":"s","title":"t","content":[]}'),
    )
    content = body(UserMessage(parts))["messages"][0]["content"]

    assert [part.get("source", {}) if part["type"] != "search_result" else {} for part in content] == [
        {"type": "base64", "media_type": "image/jpeg", "data": "aGk="},
        {"type": "base64", "media_type": "image/gif", "data": "aGk="},
        {"type": "url", "url": "https://x/y.png"},
        {"type": "file", "file_id": "file_1"},
        {"type": "base64", "media_type": "application/pdf", "data": "aGk="},
        {"type": "text", "media_type": "text/plain", "data": "plain"},
        {"type": "url", "url": "https://x/y.pdf"},
        {},
    ]
    assert (content[4]["title"], content[4]["citations"]) == ("T", {"enabled": True})
    assert (
        loss_kinds(UserMessage((Text("a"), Audio(data="aGk="), Opaque("gemini", "{}")))) == ["unsupported-content"] * 2
    )
    assert body(UserMessage((Text("a"), Image(), Text(""))))["messages"][0]["content"] == [
        {"type": "text", "text": "a"}
    ]
    assert loss_kinds(UserMessage((Text("a"), Image()))) == ["unsupported-content"]


def test_tools_and_choices():
    fields = body(tools=(WEATHER, ToolDefinition("now", strict=True, options={"defer_loading": True})))

    assert fields["tools"][0] == {"name": "weather", "description": "Current weather.", "input_schema": SCHEMA}
    assert fields["tools"][1] == {
        "name": "now", "input_schema": {"type": "object", "properties": {}}, "strict": True, "defer_loading": True,
    }  # fmt: skip
    for choice, form in [
        ("auto", {"type": "auto"}), ("required", {"type": "any"}), ("none", {"type": "none"}),
        (NamedTool("weather"), {"type": "tool", "name": "weather"}),
    ]:  # fmt: skip
        assert body(tools=(WEATHER,), tool_choice=choice)["tool_choice"] == form
    assert body(tools=(WEATHER,), parallel_tool_calls=False)["tool_choice"] == {
        "type": "auto", "disable_parallel_tool_use": True,
    }  # fmt: skip
    assert loss_kinds(tool_choice="required") == ["unsupported-parameter"]
    assert "tool_choice" not in body(tool_choice="none")


def test_custom_and_server_tools():
    """Free text input becomes one string; an unknown server tool is a loss."""
    custom = ToolDefinition("shell", kind="custom")

    assert body(tools=(custom,))["tools"][0]["input_schema"]["required"] == ["input"]
    assert loss_kinds(tools=(custom,)) == ["custom-tool"]
    assert body(tools=(ServerTool("web_search", options={"max_uses": 2}),))["tools"] == [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
    ]
    assert body(tools=(ServerTool("web_search", "web_search_20260209"),))["tools"][0]["type"] == "web_search_20260209"
    assert (
        body(tools=(ServerTool("mcp", "mcp_toolset", {"mcp_server_name": "s"}),))["tools"][0]["mcp_server_name"] == "s"
    )
    assert loss_kinds(tools=(ServerTool("telepathy"),)) == ["unsupported-tool"]


def test_container_is_sent_with_server_tools():
    """R22: the id of the last turn's container; the parameter takes precedence."""
    turn = AssistantMessage((Text("x"),), extra='{"container":{"id":"c1","expires_at":"2026"}}')
    tools = (ServerTool("code_execution"),)

    assert body(turn, UserMessage("?"), tools=tools)["container"] == "c1"
    assert "container" not in body(turn, UserMessage("?"))
    assert body(turn, UserMessage("?"), container="c2")["container"] == "c2"


def test_parameters():
    """Each parameter is written or is a loss."""
    fields = body(
        temperature=0.5, top_p=0.9, top_k=5, stop="END", user="u1", service_tier="auto", max_tokens=7, stream=True
    )

    assert fields["metadata"] == {"user_id": "u1"}
    assert fields["stop_sequences"] == ["END"]
    assert (fields["temperature"], fields["top_p"], fields["top_k"], fields["max_tokens"]) == (0.5, 0.9, 5, 7)
    assert fields["stream"] is True
    assert body(temperature=1.7)["temperature"] == 1
    assert loss_kinds(temperature=1.7) == ["clamped"]
    assert body(stop=("a", "b"))["stop_sequences"] == ["a", "b"]
    assert body(to=target(max_output=64000))["max_tokens"] == 64000
    request = wire(
        seed=1, n=2, frequency_penalty=0.1, presence_penalty=0.1, logprobs=True, top_logprobs=2, logit_bias={"1": 1},
        verbosity="low", modalities=("text",), audio={"voice": "x"}, store=True,
    )  # fmt: skip
    assert {str(loss.location) for loss in request.losses} == {
        "seed", "n", "frequency_penalty", "presence_penalty", "logprobs", "top_logprobs", "logit_bias", "verbosity",
        "modalities", "audio", "store",
    }  # fmt: skip


def test_extra_body_and_headers():
    """`extra_body` overrides; headers that hold a list are joined."""
    to = target(thinking=("budget", "disabled"), interleaved_beta=True)
    request = wire(
        to=to, effort="low", extra_headers={"Anthropic-Beta": "a,b", "X-One": "1"}, extra_body={"speed": "fast"},
        metadata={"here": {"inference_geo": "us"}, "there": {"no": 1}},
    )  # fmt: skip

    assert request.headers["anthropic-beta"] == "interleaved-thinking-2025-05-14,a,b"
    assert request.headers["x-one"] == "1"
    assert json.loads(request.body)["speed"] == "fast"
    assert json.loads(request.body)["inference_geo"] == "us"
    assert "no" not in json.loads(request.body)


def test_structured_output():
    """A schema is a parameter, `json_object` an instruction."""
    schema = JsonSchema(SCHEMA)

    assert body(response_format=schema)["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert body(SystemMessage("S"), UserMessage("?"), response_format="json_object")["system"] == (
        "S\n\nRespond with valid JSON only."
    )


ADAPTIVE = target(thinking=("adaptive", "disabled"), efforts=("low", "high"), thinking_default="no", max_output=128000)
BUDGET = target(thinking=("budget", "disabled"), efforts=(), interleaved_beta=True, max_output=64000)
ALWAYS = target(thinking=("always",), efforts=("low", "high"), thinking_default="always")


def test_thinking_adaptive():
    """An effort enables thinking; a budget is a loss."""
    fields = body(effort="high", to=ADAPTIVE)

    assert (fields["thinking"], fields["output_config"]) == ({"type": "adaptive"}, {"effort": "high"})
    assert "anthropic-beta" not in wire(effort="high", to=ADAPTIVE).headers
    assert body(effort="none", to=ADAPTIVE)["thinking"] == {"type": "disabled"}
    assert body(thinking=Thinking("off"), to=ADAPTIVE)["thinking"] == {"type": "disabled"}
    assert body(thinking=Thinking("on", show=True), to=ADAPTIVE)["thinking"] == {
        "type": "adaptive",
        "display": "summarized",
    }
    assert loss_kinds(thinking=Thinking("on", 5000), to=ADAPTIVE) == ["no-thinking-budget"]
    assert loss_kinds(thinking=Thinking("between_tools"), to=ADAPTIVE) == ["no-such-thinking"]
    assert body(thinking=Thinking("between_tools"))["thinking"] == {"type": "between_tools"}
    assert "thinking" not in body(to=ADAPTIVE)


def test_thinking_by_budget():
    """P8: a budget is always below `max_tokens`; the header for interleaved thinking is sent with it."""
    fields = body(effort="medium", max_tokens=20000, to=BUDGET)

    assert fields["thinking"] == {"type": "enabled", "budget_tokens": 8192}
    assert "output_config" not in fields
    assert wire(effort="medium", to=BUDGET).headers["anthropic-beta"] == "interleaved-thinking-2025-05-14"
    raised = wire(thinking=Thinking("on", 43008), max_tokens=4096, to=BUDGET)
    assert json.loads(raised.body)["max_tokens"] == 43008 + 4096
    assert [loss.kind for loss in raised.losses] == ["max-tokens-raised"]
    most = body(thinking=Thinking("on", 64000), to=BUDGET)
    assert (most["max_tokens"], most["thinking"]["budget_tokens"]) == (64000, 64000 - 4096)
    assert body(thinking=Thinking("on", 10), max_tokens=9000, to=BUDGET)["thinking"]["budget_tokens"] == 1024
    assert body(thinking=Thinking("on", show=False), max_tokens=9000, to=BUDGET)["thinking"]["display"] == "omitted"


def test_budget_removes_sampling_parameters():
    """A budget allows only the default temperature."""
    request = wire(effort="low", temperature=0.3, top_k=5, top_p=0.96, to=BUDGET)

    assert not {"temperature", "top_k"} & set(json.loads(request.body))
    assert [loss.kind for loss in request.losses] == ["sampling-refused"] * 2
    assert body(effort="low", temperature=1.0, to=BUDGET)["temperature"] == 1


def test_thinking_off_is_a_loss_for_always_thinking_model():
    """An effort needs no thinking mode."""
    assert loss_kinds(effort="none", to=ALWAYS) == ["thinking-stays-on"]
    assert "thinking" not in body(effort="low", to=ALWAYS)
    assert body(thinking=Thinking("on"), to=ALWAYS)["thinking"] == {"type": "adaptive"}
    assert "thinking" not in body(effort="none", to=target(thinking=("none",), thinking_default="no"))
    less = target(thinking=("adaptive", "between_tools"), thinking_default="yes")
    assert body(thinking=Thinking("off"), to=less)["thinking"] == {"type": "between_tools"}
    assert loss_kinds(thinking=Thinking("off"), to=less) == ["thinking-stays-on"]


def test_thinking_of_an_unknown_model():
    """It gets the parameters of the request unchanged."""
    assert body(effort="max")["output_config"] == {"effort": "max"}
    assert body(thinking=Thinking("on", 2000))["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert body(effort="none")["thinking"] == {"type": "disabled"}


def test_markers_and_signatures_are_written():
    turn = AssistantMessage(
        (
            Marker("compaction", "So far.", meta=AnthropicMeta("sig"), extra='{"tool_changes":[]}'),
            Reasoning("x", meta=AnthropicMeta("s")),
            Reasoning(meta=AnthropicRedactedMeta("d")),
            Text("y", cache="5m"),
        )
    )
    content = body(turn, UserMessage("?"))["messages"][0]["content"]

    assert content[0] == {"type": "compaction", "content": "So far.", "signature": "sig", "tool_changes": []}
    assert content[1:3] == [
        {"type": "thinking", "thinking": "x", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
    ]
    assert content[3]["cache_control"] == {"type": "ephemeral", "ttl": "5m"}


def test_lone_surrogates_become_replacement_characters():
    """UTF-8 has no lone surrogates; a pair is unchanged."""
    request = wire(UserMessage("a\ud800b"), AssistantMessage((ToolUse("t", "f", '{"x":"\\ud83d\\ude00 \\udc00"}'),)))

    content = json.loads(request.body)["messages"]
    assert content[0]["content"][0]["text"] == "a�b"
    assert content[1]["content"][0]["input"] == {"x": "😀 �"}
    assert [loss.kind for loss in request.losses] == ["lone-surrogate"]
