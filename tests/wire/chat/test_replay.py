"""Send messages back: assistant messages, reasoning, tool results."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from tenuto.core import jsonio
from tenuto.core.blocks import (
    AnthropicMeta,
    Audio,
    ChatMeta,
    Document,
    Image,
    Marker,
    Opaque,
    Reasoning,
    Refusal,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.core.messages import (
    AssistantMessage,
    SystemMessage,
    ToolResult,
    ToolResults,
    UserMessage,
)
from tenuto.core.provider import ChatSwitches, Provider
from tenuto.core.request import ChatRequest
from tenuto.wire.body_builder import BodyBuilder
from tenuto.wire.chat.encode import encode, verbatim
from tenuto.wire.chat.protocol import RESPONSE_ONLY
from tenuto.wire.write import write_request
from wire.chat.cases import (
    FIRST,
    STREAMS,
    assistant,
    back,
    body,
    chunk,
    encode_messages,
    only,
    sse,
    stream,
    target,
    text,
    whole,
)

HI = UserMessage("Hi")


# --- assistant messages -----------------------------------------------------------------------------------------------

CALL = ToolUse("call_1", "f", '{"n": 1.10}')
WIRE_CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"n": 1.10}'}}
RESULT = ToolResults((ToolResult("call_1", "ok"),))
THOUGHT = Reasoning("Look.", meta=ChatMeta(field="reasoning_content"))


def turn(*blocks, **fields) -> AssistantMessage:
    return AssistantMessage(blocks, **fields)


def test_text_and_calls():
    assert only(HI, turn(Text("A "), Text("moment."), CALL), RESULT)[1:] == [
        {"role": "assistant", "content": "A moment.", "tool_calls": [WIRE_CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "ok"},
    ]


def test_content_without_text_is_null_or_empty():
    assert only(turn(CALL), RESULT)[0]["content"] is None
    assert only(turn(CALL), RESULT, switches=ChatSwitches(null_content=False))[0]["content"] == ""


@pytest.mark.parametrize("args", ['{"a":', "", "[1]", "null"])
def test_arguments_are_sent_back_unchanged(args):
    block = ToolUse("call_1", "f", args, args_error="x" if args == '{"a":' else "")

    assert only(turn(block), RESULT)[0]["tool_calls"][0]["function"]["arguments"] == args


def test_arguments_are_sent_back_as_string():
    for function in ({"name": "f", "arguments": None}, {"name": "f"}, {"name": "f", "arguments": {"n": 1}}):
        message = whole(
            body(assistant(None, tool_calls=[{"id": "call_1", "type": "function", "function": function}]))
        ).message
        expected = '{"n": 1}' if function.get("arguments") else "{}"
        assert only(message, RESULT)[0]["tool_calls"][0]["function"] == {"name": "f", "arguments": expected}


def test_call_tokens_are_sent_back_without_index():
    call = {**WIRE_CALL, "index": 0, "extra_content": {"google": {"thought_signature": "Eg=="}}}
    message = whole(body(assistant(None, tool_calls=[call]))).message

    assert only(message, RESULT)[0]["tool_calls"] == [{k: v for k, v in call.items() if k != "index"}]
    assert "index" in RESPONSE_ONLY


def test_generated_id_is_sent_with_call_and_result():
    message = whole(body(assistant(None, tool_calls=[{"function": {"name": "f", "arguments": "{}"}}]))).message
    id = message.blocks[0].id
    wire_messages = only(message, ToolResults((ToolResult(id, "ok"),)))

    assert wire_messages[0]["tool_calls"][0]["id"] == wire_messages[1]["tool_call_id"] == id


def test_custom_and_builtin_calls_keep_their_kind():
    calls = turn(ToolUse("a", "sql", "select 1", "custom"), ToolUse("b", "$web_search", "{}", "builtin_function"))
    wire_messages = only(calls, ToolResults((ToolResult("a", "1"), ToolResult("b", "2"))))

    assert wire_messages[0]["tool_calls"] == [
        {"id": "a", "type": "custom", "custom": {"name": "sql", "input": "select 1"}},
        {"id": "b", "type": "builtin_function", "function": {"name": "$web_search", "arguments": "{}"}},
    ]


def test_function_call_and_result_are_sent_in_older_form():
    message = stream(STREAMS["function call"]).message
    wire_messages = only(message, ToolResults((ToolResult(message.blocks[0].id, "ok"),)))

    assert wire_messages == [
        {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
        {"role": "function", "name": "weather", "content": "ok"},
    ]


def test_refusals_and_audio_are_sent_back():
    """Most hosts have no field for a refusal, and some reject it."""
    assert only(turn(Refusal("No.")))[0] == {"role": "assistant", "content": "No."}
    own = only(turn(Refusal("No.")), switches=ChatSwitches(refusals=True))
    assert own[0] == {"role": "assistant", "content": None, "refusal": "No."}
    assert only(turn(Audio(data="AAAA", id="audio_1", transcript="Hi")))[0]["audio"] == {"id": "audio_1"}


def test_unsupported_blocks_are_losses():
    blocks = (
        Image(url="x"),
        ServerToolUse("s", "search"),
        Marker("compaction"),
        Opaque("gemini", "{}"),
        Audio(data="A"),
    )
    wire_messages, losses = encode_messages(turn(Text("a"), *blocks))

    assert wire_messages == [{"role": "assistant", "content": "a"}]
    assert losses == [("unsupported-block", f"messages[0].blocks[{at}]") for at in range(1, 6)]


def test_assistant_message_without_content_is_omitted():
    wire_messages, losses = encode_messages(HI, turn(Text("")), HI)

    assert [m["role"] for m in wire_messages] == ["user", "user"]
    assert losses == [("empty-message", "messages[1]")]


def test_system_message_without_content_is_omitted():
    wire_messages, losses = encode_messages(SystemMessage(""), HI)

    assert [m["role"] for m in wire_messages] == ["user"]
    assert losses == [("empty-message", "messages[0]")]


def test_message_fields_are_sent_back_if_listed():
    message = turn(Text("a"), extra='{"name":"Kim","annotations":[],"executed_tools":[1],"role":"x"}')

    assert only(message) == [{"role": "assistant", "content": "a", "name": "Kim"}]
    assert only(message, switches=ChatSwitches(replayed_fields=("executed_tools", "content"))) == [
        {"role": "assistant", "content": "a", "executed_tools": [1]}
    ]


@pytest.mark.parametrize(
    ("flag", "options"),
    [
        ("prefix", {"switches": ChatSwitches(prefix_flag="prefix")}),
        ("partial", {"prefill": "flag:partial"}),
        ("partial", {"prefill": "flag:partial", "switches": ChatSwitches(prefix_flag="prefix")}),
    ],
)
def test_prefill_flag_is_set_on_last_message(flag, options):
    wire_messages = only(HI, turn(Text("a")), HI, turn(Text("It ra")), **options)

    assert wire_messages[3] == {"role": "assistant", "content": "It ra", flag: True}
    assert flag not in wire_messages[1]
    assert all(flag not in m for m in only(turn(Text("a")), HI, **options))


# --- reasoning --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "plain", "called"),
    [("never", False, False), ("tool_turns", False, True), ("always", True, True)],
)
@pytest.mark.parametrize("by", ["row", "model"])
def test_reasoning_is_sent_back_by_policy(policy, plain, called, by):
    other = {"never": "always", "tool_turns": "never", "always": "never"}[policy]
    options = (
        {"switches": ChatSwitches(passback=policy)}
        if by == "row"
        else {"switches": ChatSwitches(passback=other), "passback": policy}
    )
    wire_messages, losses = encode_messages(turn(THOUGHT, Text("a")), HI, turn(THOUGHT, CALL), RESULT, **options)

    assert ("reasoning_content" in wire_messages[0], "reasoning_content" in wire_messages[2]) == (plain, called)
    expected = [
        ("reasoning-withheld", f"messages[{at}]") for at, sent_back in ((0, plain), (2, called)) if not sent_back
    ]
    assert losses == expected


def test_reasoning_is_sent_back_in_its_field():
    for field in ("reasoning", "reasoning_content"):
        block = Reasoning("Look.", meta=ChatMeta(field=field))
        assert only(turn(block, Text("a")))[0][field] == "Look."


@pytest.mark.parametrize(
    ("home", "expected"),
    [
        ("reasoning_content", {"content": "a", "reasoning_content": "Look."}),
        ("reasoning", {"content": "a", "reasoning": "Look."}),
        ("reasoning_details", {"content": "a", "reasoning": "Look."}),
        ("content", {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Look."}]}, {"type": "text", "text": "a"}]}),
    ],
)  # fmt: skip
def test_reasoning_without_field_uses_field_of_row(home, expected):
    wire_messages = only(turn(Reasoning("Look."), Text("a")), switches=ChatSwitches(reasoning_field=home))

    assert wire_messages == [{"role": "assistant", **expected}]


def test_missing_reasoning_is_empty_string_with_calls():
    deepseek = ChatSwitches(passback="tool_turns", empty_reasoning=True)
    wire_messages = only(turn(Text("a")), HI, turn(CALL), RESULT, switches=deepseek)

    assert "reasoning_content" not in wire_messages[0]
    assert wire_messages[2]["reasoning_content"] == ""
    assert "reasoning_content" not in only(turn(CALL), RESULT, switches=deepseek, passback="never")[0]
    assert (
        only(turn(CALL), RESULT, switches=replace(deepseek, reasoning_field="reasoning_details"))[0]["reasoning"] == ""
    )
    with_field = replace(THOUGHT, meta=ChatMeta(field="reasoning"))
    assert "reasoning_content" not in only(turn(with_field, CALL), RESULT, switches=deepseek)[0]


DETAILS = '[{"type":"reasoning.text","text":"Look.","signature":"Er=","cost":1.10},{"type":"odd","id":null}]'


def test_details_are_sent_back_unchanged_without_copy():
    block = Reasoning("Look.", meta=ChatMeta(field="reasoning", details=DETAILS))
    wire = encode(
        BodyBuilder(
            ChatRequest(model="m", messages=(turn(block, CALL), RESULT)), target(ChatSwitches(passback="never"))
        )
    )

    assert f'"reasoning_details":{DETAILS}'.encode() in wire.body
    assert "reasoning" not in json.loads(wire.body)["messages"][0]
    assert wire.losses == ()


def test_details_of_several_blocks_are_one_array():
    thoughts = [Reasoning(meta=ChatMeta(field="reasoning", details=f'[{{"index":{n}}}]')) for n in (0, 1)]

    assert only(turn(thoughts[0], Text("a"), thoughts[1]))[0]["reasoning_details"] == [{"index": 0}, {"index": 1}]


def test_signed_thinking_is_sent_back_despite_policy():
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "a"}], "signature": "Er=", "closed": True},
        {"type": "thinking", "thinking": [{"type": "text", "text": "b"}]},
        {"type": "text", "text": "c"},
    ]
    message = whole(body(assistant(content))).message

    assert only(message)[0]["content"] == content
    wire_messages, losses = encode_messages(message, switches=ChatSwitches(passback="never"))
    assert wire_messages[0]["content"] == [content[0], content[2]]
    assert losses == [("reasoning-withheld", "messages[0]")]


def test_think_tags_are_sent_back_unchanged_or_not_at_all():
    tagged = "\n<think>Look.</think>\nIt rains."
    message = whole(body(assistant(tagged)), ChatSwitches(think_tags=True)).message

    assert only(message)[0]["content"] == tagged
    assert encode_messages(message, switches=ChatSwitches(passback="never"))[0][0]["content"] == "\nIt rains."


@pytest.mark.parametrize("meta", [ChatMeta(field="reasoning", details="no list"), ChatMeta(field="x", signature="Er=")])
def test_unreadable_token_is_a_loss(meta):
    assert ("unreadable-token", "messages[0].blocks[0]") in encode_messages(turn(Reasoning("a", meta=meta), Text("b")))[
        1
    ]


def test_token_of_other_dialect_is_not_sent():
    wire_messages, _ = encode_messages(turn(Reasoning("a", meta=AnthropicMeta("Er=")), Text("b")))

    assert b"Er=" not in json.dumps(wire_messages).encode()


# --- tool results -----------------------------------------------------------------------------------------------------


def answer(result: ToolResult, **options):
    wire_messages, losses = encode_messages(turn(CALL), ToolResults((result,)), **options)
    return wire_messages[1], losses


def test_each_result_is_a_message():
    calls = turn(CALL, replace(CALL, id="call_2"))
    results = ToolResults((ToolResult("call_1", "a"), ToolResult("call_2", "b")))

    assert [(m["tool_call_id"], m["content"]) for m in only(calls, results)[1:]] == [("call_1", "a"), ("call_2", "b")]


def test_failed_result_says_error():
    assert answer(ToolResult("call_1", "no disk", is_error=True))[0]["content"] == "Error: no disk"
    assert answer(ToolResult("call_1", "error: no disk", is_error=True))[0]["content"] == "error: no disk"
    assert answer(ToolResult("call_1", (Text("no disk"),), is_error=True))[0]["content"] == "Error: no disk"


def test_result_texts_are_joined_and_images_depend_on_switch():
    picture = Image(data="AAAA", mime="image/png")
    result = ToolResult("call_1", (Text("a"), Document(text="b"), picture))

    assert answer(result) == (
        {"role": "tool", "tool_call_id": "call_1", "content": "a\nb"},
        [("unsupported-content", "messages[1].blocks[0].content[2]")],
    )
    wire_messages, losses = answer(result, switches=ChatSwitches(images_in_results=True))
    assert [part["type"] for part in wire_messages["content"]] == ["text", "text", "image_url"]
    assert losses == []


def test_result_has_tool_name_if_switched_and_extra_fields():
    switches = ChatSwitches(name_on_tool_message=True)

    assert answer(ToolResult("call_1", "ok", extra='{"x":1}'), switches=switches)[0] == {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": "ok",
        "name": "f",
        "x": 1,
    }


# --- unusual values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "extra",
    ['{"function":5}', '{"function_call":5}', '{"type":5}', '{"in":5}', '{"before":5,"closed":5}', '{"image_url":5}'],
)
def test_extra_fields_of_wrong_type_are_ignored(extra):
    blocks = (
        replace(CALL, extra=extra),
        Reasoning("a", meta=ChatMeta(field="think"), extra=extra),
        Opaque("openai-chat", "{}", extra=extra),
        Image(url="x", extra=extra),
    )
    message = turn(*blocks, extra=extra)

    jsonio.encode(verbatim(message))
    assert encode_messages(message, RESULT)[0]


def test_lone_surrogates_are_replaced_with_a_loss():
    wire = encode(BodyBuilder(ChatRequest(model="m", messages=(UserMessage("a\ud800"),)), target()))

    assert json.loads(wire.body)["messages"][0]["content"] == "a\ufffd"
    assert [loss.kind for loss in wire.losses] == ["lone-surrogate"]


@pytest.mark.parametrize("name", STREAMS)
def test_streamed_messages_can_be_sent_back(name):
    for at, choice in enumerate(stream(STREAMS[name]).choices):
        assert back(stream(STREAMS[name]), at)["role"] == "assistant"
        wire = encode(BodyBuilder(ChatRequest(model="m", messages=(HI, choice.message)), target()))
        assert json.loads(wire.body)["messages"][1]["role"] == "assistant"


def test_extra_field_replaces_text_of_part():
    wire = encode(
        BodyBuilder(ChatRequest(model="m", messages=(UserMessage((Text("a", extra='{"text":"b"}'),)),)), target())
    )

    assert json.loads(wire.body)["messages"][0]["content"] == [{"type": "text", "text": "b"}]


# --- content that is an object ----------------------------------------------------------------------------------------

STRUCTURED = '{"title": "Apples are tasty", "n": 1.10, "half": "\\ud800"}'


def structured_reply(content=STRUCTURED):
    return whole(body(assistant("@")).replace(b'"@"', content.encode()))


def test_content_object_becomes_text():
    response = structured_reply()

    assert response.message.blocks == (Text(STRUCTURED),)
    assert (response.text, response.losses) == (STRUCTURED, ())


@pytest.mark.parametrize("content", [STRUCTURED, "{}", '{"a":{"b":[]}}'])
def test_content_object_is_sent_back_byte_for_byte(content):
    message = structured_reply(content).message
    request = encode(
        BodyBuilder(ChatRequest(model="gpt-x", messages=(UserMessage("q"), message, UserMessage("go"))), target())
    )

    assert b'"content":' + content.encode() in jsonio.encode(verbatim(message))
    assert b'"content":' + content.encode().replace(b"ud800", b"ufffd") in request.body


def test_streamed_content_object_is_written_back_as_object():
    response = stream(sse(FIRST, chunk({"content": {"a": 1}}), chunk({}, "stop")))

    assert response.message.blocks == (Text('{"a": 1}'),)
    assert back(response)["content"] == {"a": 1}


def test_content_object_among_text_is_written_back_as_text():
    frames = (text("Here: "), chunk({"content": {"a": 1}}), text("."))
    response = stream(sse(FIRST, *frames, chunk({}, "stop")))

    assert response.text == back(response)["content"] == 'Here: {"a": 1}.'


def test_content_object_is_text_for_other_provider():
    message = structured_reply('{"a":1}').message
    there = replace(target(), provider=Provider("there", "openai-chat", ""), model="gpt-y")
    wire = write_request(ChatRequest(model="gpt-y", messages=(UserMessage("q"), message, UserMessage("go"))), there)

    assert json.loads(wire.body)["messages"][1]["content"] == '{"a":1}'
    assert wire.losses == ()
