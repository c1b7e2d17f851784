from __future__ import annotations

import json
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from strategies import (
    blocks_of,
    broken_words,
    json_values,
    messages_of,
    metas_of,
    names,
    objects,
    responses_of,
    transcripts_of,
)
from tenuto.core import jsonio, stored
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    Block,
    ChatMeta,
    GeminiMeta,
    Image,
    Opaque,
    OpaqueMeta,
    OpenAiMeta,
    OtherCitation,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
    UrlCitation,
    Value,
)
from tenuto.core.journal import RequestFailed
from tenuto.core.jsonio import JsonError
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import (
    AssistantMessage,
    Message,
    Origin,
    SystemMessage,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
)
from tenuto.core.response import ChatResponse, Choice
from tenuto.core.stored import (
    dump_block,
    dump_message,
    dump_meta,
    dump_response,
    dump_transcript,
    load_block,
    load_message,
    load_meta,
    load_response,
    load_transcript,
)
from tenuto.core.transcript import Transcript

KINDS = {
    "block": (blocks_of(broken_words), dump_block, load_block, stored._block),
    "meta": (metas_of(broken_words), dump_meta, load_meta, stored._meta),
    "message": (messages_of(broken_words), dump_message, load_message, stored._message),
    "transcript": (transcripts_of(broken_words), dump_transcript, load_transcript, stored._transcript),
    "response": (responses_of(broken_words), dump_response, load_response, stored._reader(ChatResponse)),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(data=st.data())
def test_value_round_trip(kind, data):
    """Also with surrogates, control characters, unknown fields, tokens and unusual JSON, as bytes or text."""
    strategy, dump, load, read_members = KINDS[kind]
    value = data.draw(strategy)
    written = dump(value)

    assert load(written) == value
    assert load(written.decode()) == value
    assert read_members(jsonio.check(written)) == value, "reading member by member gives the same value"
    assert b'"unknown_fields":' not in written
    json.loads(written)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(data=st.data())
def test_unknown_fields_round_trip(kind, data):
    """A new field on any object survives loading and saving with its exact text."""
    strategy, dump, load, _ = KINDS[kind]
    document = json.loads(dump(data.draw(strategy)))
    places = list(_own_objects(document, kind))
    target = data.draw(st.sampled_from(places))
    target["later"] = data.draw(json_values)
    saved = json.loads(dump(load(json.dumps(document))))

    assert saved == document


def _own_objects(document, kind):
    """Find the objects in a stored document that are our values, without those of a later version."""
    yield document
    inside = {"meta": "meta", "origin": "plain", "message": "message"}
    lists = {
        "blocks": "block",
        "citations": "citation",
        "content": "block",
        "results": "result",
        "choices": "choice",
        "losses": "plain",
        "messages": "message",
    }
    if kind == "response" and isinstance(document.get("usage"), dict):
        yield document["usage"]
    for name, value in document.items():
        if name in inside and isinstance(value, dict):
            yield from _own_objects(value, inside[name])
        if name in lists and isinstance(value, list):
            for item in value:
                yield from _own_objects(item, lists[name])


# --- the stored form -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "block,expected",
    [
        (Text("Hi"), '{"block_type":"text","text":"Hi"}'),
        (
            Text("", meta=GeminiMeta("c2ln")),
            '{"block_type":"text","text":"","meta":{"provider":"gemini","thoughtSignature":"c2ln"}}',
        ),
        (
            Reasoning("Hm.", meta=AnthropicMeta("EqQB")),
            '{"block_type":"reasoning","text":"Hm.","meta":{"provider":"anthropic","signature":"EqQB"}}',
        ),
        (
            Reasoning(meta=OpenAiMeta("rs_1", "gAAA")),
            '{"block_type":"reasoning","text":"","meta":{"provider":"open_ai","id":"rs_1","encrypted_content":"gAAA"}}',
        ),
        (
            Reasoning(meta=OpenAiMeta("rs_1")),
            '{"block_type":"reasoning","text":"","meta":{"provider":"open_ai","id":"rs_1"}}',
        ),
        (
            Reasoning(meta=AnthropicRedactedMeta("EmwK")),
            '{"block_type":"reasoning","text":"","meta":{"provider":"anthropic_redacted","data":"EmwK"}}',
        ),
        (
            Reasoning("Hm.", meta=ChatMeta("reasoning_content")),
            '{"block_type":"reasoning","text":"Hm.","meta":{"provider":"chat","field":"reasoning_content"}}',
        ),
        (
            ToolUse("call_1", "weather", '{"n": 1.10}'),
            '{"block_type":"tool_use","id":"call_1","name":"weather","args":"{\\"n\\": 1.10}"}',
        ),
    ],
)
def test_blocks_are_written_as_specified(block, expected):
    assert dump_block(block).decode() == expected
    assert load_block(expected) == block


@pytest.mark.parametrize(
    "message,expected",
    [
        (SystemMessage("Be brief."), '{"role":"system","content":"Be brief."}'),
        (
            UserMessage((Text("Hi"),)),
            '{"role":"user","content":[{"block_type":"text","text":"Hi"}]}',
        ),
        (
            AssistantMessage((Refusal("No"),), "stop", "end", Origin("a", "b")),
            '{"role":"assistant","blocks":[{"block_type":"refusal","text":"No"}],"stop_reason":"stop","raw_stop_reason":"end","origin":{"provider":"a","dialect":"b"}}',
        ),
        (
            ToolResults((ToolResult("call_1", "4 °C", is_error=True),)),
            '{"role":"tool","results":[{"tool_use_id":"call_1","content":"4 °C","is_error":true}]}',
        ),
    ],
)
def test_messages_are_written_as_specified(message, expected):
    assert dump_message(message).decode() == expected
    assert load_message(expected) == message


def test_raw_json_can_be_loaded():
    assert load_block(Raw(b'{"block_type":"text","text":"Hi"}')) == Text("Hi")


# --- values of a later version ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"block_type":"video", "seconds": 1.10, "frames":[ ]}',
        '{"block_type":"text"}',
        '{"block_type":"text","text":5}',
        '{"block_type":7}',
        '{"type":"text","text":"Hi"}',
        '{"block_type":"text","text":"\\ud800","citations":[4]}',
        "{}",
    ],
)
def test_unknown_block_is_written_back_unchanged(text):
    block = load_block(text)

    assert jsonio.as_text(jsonio.check(dump_block(block))) == text
    assert block == Opaque("", text) or isinstance(block, Text)


def test_unknown_block_keeps_its_index():
    text = '{"role":"assistant","blocks":[{"block_type":"text","text":"a"},{"block_type":"video", "n": 1e1},{"block_type":"text","text":"b"}]}'
    message = load_message(text)

    assert message.blocks == (Text("a"), Opaque("", '{"block_type":"video", "n": 1e1}'), Text("b"))
    assert dump_message(message).decode() == text


def test_opaque_block_is_stored_with_dialect():
    block = Opaque("gemini", '{"videoMetadata":{}}')

    assert dump_block(block) == b'{"block_type":"opaque","dialect":"gemini","raw":"{\\"videoMetadata\\":{}}"}'
    assert load_block(dump_block(block)) == block


@pytest.mark.parametrize(
    "raw",
    [
        '{"block_type":"text","text":"Hi"}',
        "not JSON",
        "5",
        '{"block_type":"video","a":"\ud800"}',
        '{"block_type":"opaque","dialect":"","raw":"{}"}',
        ' {"block_type":"video"}',
    ],
)
def test_opaque_block_is_wrapped_if_ambiguous(raw):
    """Text of another block, or invalid text, must not become that block."""
    for block in (Opaque("", raw), Opaque("", raw, extra="{}"), Opaque("", raw, meta=GeminiMeta("s"))):
        assert load_block(dump_block(block)) == block
        assert b'"opaque"' in dump_block(block)


def test_other_block_in_user_message_is_opaque():
    text = '{"role":"user","content":[{"block_type":"reasoning","text":"Hm."}]}'
    message = load_message(text)

    assert message == UserMessage((Opaque("", '{"block_type":"reasoning","text":"Hm."}'),))
    assert load_message(dump_message(message)) == message


@pytest.mark.parametrize(
    "text",
    [
        '{"provider":"later", "token":"t", "n":1.10}',
        '{"provider":"anthropic"}',
        '{"provider":"gemini","thoughtSignature":5}',
        '{"provider":5}',
        '"words"',
    ],
)
def test_unknown_token_is_written_back_unchanged(text):
    stored_block = f'{{"block_type":"reasoning","text":"Hm.","meta":{text}}}'
    block = load_block(stored_block)

    assert block == Reasoning("Hm.", meta=OpaqueMeta(text))
    assert dump_block(block).decode() == stored_block
    assert load_meta(dump_meta(OpaqueMeta(text))) == OpaqueMeta(text)


@pytest.mark.parametrize("raw", ['{"provider":"gemini","thoughtSignature":"s"}', "not JSON"])
def test_opaque_token_is_wrapped_if_ambiguous(raw):
    block = Reasoning(meta=OpaqueMeta(raw))

    assert load_block(dump_block(block)) == block


@pytest.mark.parametrize(
    "text,citation",
    [
        ('{"type":"video","at":1.10}', OtherCitation(unknown_fields='{"type":"video","at":1.10}')),
        ('{"type":"url"}', OtherCitation(unknown_fields='{"type":"url"}')),
        ('{"type":"url","url":"u","seen":1.10}', UrlCitation("u", unknown_fields='{"seen":1.10}')),
        ('{"type":"other","raw":"{}"}', OtherCitation(raw="{}")),
    ],
)
def test_unknown_citation_is_preserved(text, citation):
    stored_block = f'{{"block_type":"text","text":"Hi","citations":[{text}]}}'

    assert load_block(stored_block) == Text("Hi", (citation,))
    assert json.loads(dump_block(load_block(stored_block))) == json.loads(stored_block)


@pytest.mark.parametrize(
    "text,value",
    [
        (
            '{"role":"assistant","blocks":[],"stop_reason":"paused"}',
            AssistantMessage((), unknown_fields='{"stop_reason":"paused"}'),
        ),
        (
            '{"role":"assistant","blocks":[],"origin":{"dialect":"gemini"}}',
            AssistantMessage((), unknown_fields='{"origin":{"dialect":"gemini"}}'),
        ),
        ('{"role":"user","content":"Hi","name":null}', UserMessage("Hi", unknown_fields='{"name":null}')),
        (
            '{"role":"user","content":"Hi","unknown_fields":"x"}',
            UserMessage("Hi", unknown_fields='{"unknown_fields":"x"}'),
        ),
        (
            '{"role":"user","content":"Hi","\\u0075nknown_fields":"x"}',
            UserMessage("Hi", unknown_fields='{"unknown_fields":"x"}'),
        ),
        (
            '{"role":"user","content":"Hi","unknown_fields":""}',
            UserMessage("Hi", unknown_fields='{"unknown_fields":""}'),
        ),
    ],
)
def test_invalid_optional_field_is_preserved(text, value):
    """A new value of a later version must neither break the message nor be lost."""
    assert load_message(text) == value
    assert json.loads(dump_message(value)) == json.loads(text)


def test_unknown_fields_on_every_level_are_preserved():
    response = ChatResponse(
        "id",
        "p",
        "m",
        (
            Choice(
                AssistantMessage((), origin=Origin("p", "d", unknown_fields='{"a":1.10}'), unknown_fields='{"b":2}'),
                unknown_fields='{"c":3}',
            ),
        ),
        Usage(input_tokens=1, unknown_fields='{"d":4}'),
        losses=(Loss("r", Location(path="p", unknown_fields='{"g":7}'), "w", unknown_fields='{"e":5}'),),
        unknown_fields='{"f":6}',
    )
    written = dump_response(response)

    assert load_response(written) == response
    assert b'"origin":{"provider":"p","dialect":"d","a":1.10}' in written
    assert written.endswith(b'"losses":[{"kind":"r","location":{"path":"p","g":7},"detail":"w","e":5}],"f":6}')


@pytest.mark.parametrize(
    "value",
    [
        Text("Hi", unknown_fields='{"text":"Ho"}'),
        Text("Hi", unknown_fields='{"block_type":"video"}'),
        Text("Hi", unknown_fields='{"cache":"1h"}'),
        Text("Hi", unknown_fields='{ "later" : 1 }'),
        Text("Hi", unknown_fields="[]"),
        Text("Hi", unknown_fields="words"),
        Text(
            "Hi",
            unknown_fields='{"deep":' + "[" * 199 + "]" * 199 + "}",
            meta=GeminiMeta("s", unknown_fields='{"a":[]}'),
        ),
    ],
)
def test_unknown_fields_that_change_value_are_refused(value):
    """They were made by hand; storing them would change the value."""
    message = AssistantMessage((value,))

    with pytest.raises(JsonError):
        dump_message(message)


# --- other spellings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text,meta",
    [
        ('{"provider":"openai","id":"rs_1"}', OpenAiMeta("rs_1")),
        ('{"provider":"open_ai","id":"rs_1"}', OpenAiMeta("rs_1")),
        ('{"provider":"google","thoughtSignature":"s"}', GeminiMeta("s")),
        ('{"provider":"gemini","thoughtSignature":"s"}', GeminiMeta("s")),
        ('{"provider":"google","thoughtSignature":"s","n":1.10}', GeminiMeta("s", unknown_fields='{"n":1.10}')),
    ],
)
def test_tokens_are_read_with_other_tag_spelling(text, meta):
    assert load_meta(text) == meta
    assert json.loads(dump_meta(meta))["provider"] == type(meta).__struct_config__.tag


@given(blocks_of(broken_words))
def test_blocks_are_read_with_their_fields_inside_data(block):
    """Fields on the block or inside `data` are read; fields on the block are written."""
    flat = jsonio.members(dump_block(block))
    adjacent = jsonio.encode({"block_type": flat.pop("block_type"), "data": flat})

    assert load_block(adjacent) == block


@pytest.mark.parametrize(
    "text,block",
    [
        ('{"block_type":"image","data":"aGk=","mime":"image/png"}', Image("aGk=", "image/png")),
        ('{"block_type":"text","text":"a","data":{"text":"b"}}', Text("a", unknown_fields='{"data":{"text":"b"}}')),
        ('{"block_type":"refusal","data":{"text":"No."},"n":1}', Refusal("No.", unknown_fields='{"n":1}')),
    ],
)
def test_data_is_merged_unless_fields_conflict(text, block):
    assert load_block(text) == block


@given(names, objects)
def test_json_arguments_become_exact_text(name, args):
    text = args.strip()

    assert load_block(f'{{"block_type":"tool_use","id":"1","name":"{name}","args": {args} }}') == ToolUse(
        "1", name, text
    )
    assert load_block(f'{{"block_type":"server_tool_use","id":"1","name":"{name}","args":{args}}}') == ServerToolUse(
        "1", name, text
    )
    assert load_block(f'{{"block_type":"server_tool_result","tool_use_id":"1","content":{args}}}') == ServerToolResult(
        "1", text
    )


# --- unreadable values -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [load_block, load_message, load_response])
@pytest.mark.parametrize("text", ["", "{", "[]", "5", "null", '"words"', "[" * 300, b"\xff", '{"a":1}x'])
def test_invalid_stored_value_raises_json_error(load, text):
    with pytest.raises(JsonError):
        load(text)


@pytest.mark.parametrize(
    "text,message",
    [
        ('{"role":"narrator","content":"Hi"}', "unknown role 'narrator'"),
        ('{"role":"user"}', "UserMessage has no content"),
        ('{"role":"user","content":5}', "UserMessage.content"),
        ('{"role":"assistant","blocks":[5]}', "AssistantMessage.blocks"),
        ('{"role":"system","content":[{"block_type":"image"}]}', "SystemMessage.content: block_type is not 'text'"),
        ('{"role":"tool","results":[{}]}', "ToolResults.results: ToolResult has no tool_use_id"),
    ],
)
def test_incomplete_message_error_names_field(text, message):
    with pytest.raises(JsonError, match=message):
        load_message(text)


@given(st.binary(max_size=40) | st.text(max_size=40) | objects)
def test_any_bytes_are_read_or_refused(data):
    for load in (load_block, load_meta, load_message, load_response):
        try:
            value = load(data)
        except JsonError:
            continue
        assert isinstance(value, Value)


# --- readers of fields -----------------------------------------------------------------------------------------------

VALUES = [*get_args(Block), *get_args(Message), ToolResult, Origin, Usage, Loss, Choice, ChatResponse, Transcript]


@pytest.mark.parametrize("kind", VALUES)
def test_each_field_with_values_has_a_reader(kind):
    """Otherwise an unknown field inside would make the whole field unreadable."""
    for field in msgspec.structs.fields(kind):
        assert ("tenuto" in str(field.type)) == (field.type in stored._TYPE_READERS), f"{kind.__name__}.{field.name}"


@pytest.mark.parametrize(
    "member",
    ['"unknown_fields":""', '"unknown_fields":"{}"', '"\\u0075nknown_fields":""', '"unkn\\u006fwn_fields" :"x"'],
)
@pytest.mark.parametrize(
    "usage",
    [
        '"usage":{%s,"input_tokens":1}',
        '"usage":{%s,"input_by_modality":{"usage":1}}',
        '"usage" : {%s,"input_by_modality":{"\\"usage":1}}',
        '"\\u0075sage":{"input_tokens":1,%s}',
    ],
)
def test_usage_with_unknown_fields_round_trip(usage, member):
    """It is the name of our own field, which no stored document may set."""
    payload = stored.load_payload('{"entry":"request_failed",%s,"error":"E"}' % (usage % member))

    assert isinstance(payload, RequestFailed)
    assert payload.usage is not None
    assert jsonio.parse(payload.usage.unknown_fields) == {
        "unknown_fields": jsonio.parse("{" + member + "}")["unknown_fields"]
    }
