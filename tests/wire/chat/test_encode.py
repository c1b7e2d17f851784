"""Encode chat requests: parameters, tools, instructions, user messages."""

from __future__ import annotations

import json

import pytest

from tenuto.core.blocks import (
    Audio,
    Document,
    Image,
    Opaque,
    Text,
)
from tenuto.core.messages import (
    SystemMessage,
    UserMessage,
    user,
)
from tenuto.core.provider import ChatSwitches
from tenuto.core.request import ChatRequest, ServerTool, ToolDefinition
from tenuto.wire.body_builder import BodyBuilder
from tenuto.wire.chat.encode import encode
from wire.chat.cases import encode_messages, only, target

HI = UserMessage("Hi")


# --- the request ------------------------------------------------------------------------------------------------------


def test_minimal_request():
    wire = encode(BodyBuilder(ChatRequest(model="here/gpt-x", messages=(HI,)), target()))

    assert (wire.method, wire.path, wire.headers) == ("POST", "/chat/completions", {"content-type": "application/json"})
    assert json.loads(wire.body) == {
        "model": "gpt-x",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": False,
    }


def test_same_request_gives_same_bytes():
    request = ChatRequest(model="m", messages=(HI,), temperature=0.5, tools=(ToolDefinition("f"),))

    assert encode(BodyBuilder(request, target())) == encode(BodyBuilder(request, target()))


PARAMETERS = {
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 40,
    "n": 2,
    "seed": 7,
    "frequency_penalty": 0.1,
    "presence_penalty": 0.2,
    "logit_bias": {"50256": -100},
    "user": "me",
    "verbosity": "low",
    "service_tier": "flex",
    "modalities": ["text", "audio"],
    "audio": {"voice": "alloy", "format": "wav"},
    "store": False,
    "logprobs": True,
    "top_logprobs": 2,
    "stop": ["END"],
    "max_tokens": 100,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_keep_their_names(name):
    value = PARAMETERS[name]
    argument = tuple(value) if isinstance(value, list) else value
    wire = encode(BodyBuilder(ChatRequest(model="m", messages=(HI,), **{name: argument}), target()))

    assert json.loads(wire.body)[name] == value
    assert wire.losses == ()


def test_unsupported_parameter_is_a_loss():
    wire = encode(BodyBuilder(ChatRequest(model="m", messages=(HI,), container="c1"), target()))

    assert [(loss.kind, str(loss.location)) for loss in wire.losses] == [("unsupported-parameter", "container")]


def test_tools():
    tools = (
        ToolDefinition("f", "Does f.", {"type": "object", "properties": {"n": {"type": "integer"}}}, strict=False),
        ToolDefinition("g"),
        ToolDefinition("sql", "Runs SQL.", kind="custom", options={"custom": {"format": {"type": "text"}}}),
        ToolDefinition("h", options={"function": {"x": 1}, "y": 2}),
        ServerTool("web_search", type="browser_search", options={"region": "no"}),
        ServerTool("code_execution"),
    )
    wire = encode(BodyBuilder(ChatRequest(model="m", messages=(HI,), tools=tools), target()))
    empty = {"type": "object", "properties": {}}

    assert json.loads(wire.body)["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "f",
                "description": "Does f.",
                "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}},
                "strict": False,
            },
        },
        {"type": "function", "function": {"name": "g", "parameters": empty}},
        {"type": "custom", "custom": {"name": "sql", "description": "Runs SQL.", "format": {"type": "text"}}},
        {"type": "function", "function": {"name": "h", "parameters": empty, "x": 1}, "y": 2},
        {"type": "browser_search", "region": "no"},
    ]
    assert [(loss.kind, loss.detail) for loss in wire.losses] == [("unsupported-tool", "code_execution")]


# --- instructions -----------------------------------------------------------------------------------------------------


def test_instructions_are_a_system_message():
    assert only(SystemMessage("Be brief."), HI)[0] == {"role": "system", "content": "Be brief."}
    assert only(SystemMessage((Text("Be "), Text("brief."))), HI)[0] == {"role": "system", "content": "Be brief."}


def test_reasoning_models_get_developer_role():
    switches = ChatSwitches(developer_role=True)

    assert only(SystemMessage("a"), switches=switches, thinking=("effort",))[0]["role"] == "developer"
    assert only(SystemMessage("a"), switches=switches, thinking=("none",))[0]["role"] == "system"
    assert only(SystemMessage("a"), switches=switches)[0]["role"] == "system"


def test_late_instructions_move_to_the_start():
    messages = (SystemMessage("a"), HI, SystemMessage("b"))

    assert [m["content"] for m in only(*messages)] == ["a", "Hi", "b"]
    wire_messages, losses = encode_messages(*messages, system_mid="top_only")
    assert [m["content"] for m in wire_messages] == ["a", "b", "Hi"]
    assert losses == [("moved-instructions", "messages[2]")]


def test_leading_instructions_are_joined_with_one_system():
    wire_messages = only(SystemMessage("a"), SystemMessage("b"), HI, switches=ChatSwitches(one_system=True))

    assert wire_messages == [{"role": "system", "content": "a\n\nb"}, {"role": "user", "content": "Hi"}]
    assert len(only(SystemMessage("a"), HI, switches=ChatSwitches(one_system=True))) == 2


def test_cache_hints():
    parts = (Text("a", cache="1h"), Text("b"))
    switches = ChatSwitches(cache_control=True)
    expected = [
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        {"type": "text", "text": "b"},
    ]

    assert only(SystemMessage(parts), switches=switches)[0]["content"] == expected
    assert only(UserMessage(parts), switches=switches)[0]["content"] == expected
    assert encode_messages(SystemMessage(parts), UserMessage(parts))[1] == [
        ("cache-hint", "messages[0].blocks[0]"),
        ("cache-hint", "messages[1].blocks[0]"),
    ]


@pytest.mark.parametrize(
    "cache, hint",
    [
        ("auto", {"type": "ephemeral"}),
        ("5m", {"type": "ephemeral"}),
        ("1h", {"type": "ephemeral", "ttl": "1h"}),
        ("off", None),
    ],
)
def test_request_cache_ttl(cache, hint):
    wire = encode(
        BodyBuilder(ChatRequest(model="m", messages=(HI,), cache=cache), target(ChatSwitches(cache_control=True)))
    )

    assert (json.loads(wire.body).get("cache_control"), wire.losses) == (hint, ())


# --- user messages ----------------------------------------------------------------------------------------------------


def test_single_text_is_string_and_several_are_parts():
    assert only(user("a"), UserMessage((Text("b"),)), user("c", "d")) == [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "user", "content": [{"type": "text", "text": "c"}, {"type": "text", "text": "d"}]},
    ]


@pytest.mark.parametrize(
    ("part", "wire", "switches"),
    [
        (Image(url="https://a.example/b.png", detail="low"), {"type": "image_url", "image_url": {"url": "https://a.example/b.png", "detail": "low"}}, {}),
        (Image(data="AAAA", mime="image/png"), {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, {}),
        (Image(data="AAAA", mime="image/png"), {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, {"image_urls": False}),
        (Audio(data="AAAA", mime="audio/mpeg"), {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}, {}),
        (Audio(data="AAAA", mime="audio/flac"), {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "flac"}}, {}),
        (Audio(data="AAAA", mime="audio/wav"), {"type": "input_audio", "input_audio": {"data": "data:audio/wav;base64,AAAA", "format": "wav"}}, {"audio_as_uri": True}),
        (Document(data="AAAA", mime="application/pdf", title="a.pdf"), {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}}, {}),
        (Document(file_id="file-1"), {"type": "file", "file": {"file_id": "file-1"}}, {}),
        (Document(text="Read me."), {"type": "text", "text": "Read me."}, {"file_parts": False}),
        (Opaque("openai-chat", '{"type":"video","n":1.10}'), {"type": "video", "n": 1.1}, {}),
        (Text("a", extra='{"x":1}'), {"type": "text", "text": "a", "x": 1}, {}),
    ],
)  # fmt: skip
def test_content_parts(part, wire, switches):
    assert only(user("See:", part), switches=ChatSwitches(**switches))[0]["content"][1] == wire


@pytest.mark.parametrize(
    ("part", "switches"),
    [
        (Image(file_id="file-1"), {}),
        (Image(url="https://a.example/b.png"), {"image_urls": False}),
        (Audio(url="https://a.example/b.wav"), {}),
        (Document(url="https://a.example/b.pdf"), {}),
        (Document(data="AAAA", mime="application/pdf"), {"file_parts": False}),
        (Opaque("gemini", "{}"), {}),
        (Opaque("", "{}"), {}),
    ],
)
def test_unsupported_content_parts_are_losses(part, switches):
    wire_messages, losses = encode_messages(user("See:", part), switches=ChatSwitches(**switches))

    assert wire_messages == [{"role": "user", "content": "See:"}]
    assert [location for _, location in losses] == ["messages[0].blocks[1]"]


def test_user_name_is_sent_if_supported():
    message = UserMessage("Hi", name="Kim")

    assert only(message)[0]["name"] == "Kim"
    assert encode_messages(message, switches=ChatSwitches(names=False)) == (
        [{"role": "user", "content": "Hi"}],
        [("unsupported-parameter", "messages[0].name")],
    )
