"""Read items as blocks, and write them back unchanged."""

from __future__ import annotations

import json

import pytest

from tenuto.core import jsonio
from tenuto.core.blocks import (
    Image,
    Marker,
    Opaque,
    OpenAiMeta,
    OtherCitation,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
    UrlCitation,
)
from tenuto.core.messages import AssistantMessage
from tenuto.wire.decoder import decode_body
from tenuto.wire.responses.encode import verbatim
from wire.responses.cases import (
    CLIENT,
    FILE,
    IMAGE,
    ITEMS,
    MARKED,
    PAGE,
    RESULTS,
    SERVER_CALLS,
    call,
    message,
    reasoning,
    text,
)
from wire.responses.replies import decode_items, decoder, loss_kinds, write_items


@pytest.mark.parametrize("name", sorted(ITEMS))
def test_item_round_trip(name):
    reply = decode_items(ITEMS[name])

    assert write_items(reply) == [ITEMS[name]]
    assert not any(isinstance(block, Opaque) for block in reply.message.blocks)
    assert reply.losses == ()


def test_items_of_reply_keep_their_order():
    assert write_items(decode_items(*ITEMS.values())) == list(ITEMS.values())


def test_number_literals_are_unchanged():
    """A signature distinguishes `1.10` from `1.1`."""
    item = '{"type":"web_search_call","id":"ws_1","action":{"score":1.10,"big":12345678901234567890},"odd":1E2}'
    raw = f'{{"status":"completed","output":[{item}]}}'.encode()

    assert b'"score":1.10,"big":12345678901234567890' in jsonio.encode(verbatim(decode_body(decoder(), raw).message))
    assert b'"odd":1E2' in jsonio.encode(verbatim(decode_body(decoder(), raw).message))


def test_first_part_holds_fields_of_message():
    one, two = decode_items(message(text("One."), text("Two."), phase="commentary")).message.blocks

    assert one.meta == two.meta == OpenAiMeta(id="msg_1")
    assert json.loads(one.extra)["item"] == {"status": "completed", "role": "assistant", "phase": "commentary"}
    assert "item" not in json.loads(two.extra)


def test_adjacent_messages_stay_separate():
    """Also if they have no ids, or the same id."""
    for id in ("msg_1", ""):
        items = [message(text("One."), text("Two."), id=id), message(text("Three."), id=id)]

        assert write_items(decode_items(*items)) == items


@pytest.mark.parametrize("content", [[], "a string", None])
def test_message_without_parts_round_trip(content):
    item = message() | {"content": content}
    reply = decode_items(item)

    assert write_items(reply) == [item]
    assert reply.text == (content or "")


def test_message_without_content_is_opaque():
    item = {"type": "message", "id": "msg_1", "role": "assistant"}

    assert isinstance(decode_items(item).message.blocks[0], Opaque)
    assert write_items(decode_items(item)) == [item]


def test_unknown_parts_stay_in_their_message():
    parts = [{"type": "output_smell", "smell": "rain"}, text("So."), {"type": "output_text", "text": None}, "bare", 7]
    reply = decode_items(message(*parts))

    assert [type(block) for block in reply.message.blocks] == [Opaque, Text, Opaque, Opaque, Opaque]
    assert write_items(reply) == [message(*parts)]


def test_part_of_type_text_is_text():
    reply = decode_items(message({"type": "text", "text": "Hi."}))

    assert reply.text == "Hi."
    assert write_items(reply) == [message({"type": "text", "text": "Hi."})]


def test_messages_of_other_roles_are_markers():
    """A compacted history repeats user messages."""
    item = message({"type": "input_text", "text": "Hi."}, {"type": "input_image", "file_id": "f"}, role="user")
    reply = decode_items(item, object="response.compaction")

    assert reply.text == ""
    assert [(block.kind, block.text) for block in reply.message.blocks] == [
        ("input_text", "Hi."),
        ("input_image", None),
    ]
    assert write_items(reply) == [item]


def test_unknown_items_are_opaque_and_unchanged():
    items = [{"type": "divination", "id": "d_1", "omen": 1}, {"id": "no_type"}, {"type": 7}]
    reply = decode_items(*items)

    assert all(isinstance(block, Opaque) and block.dialect == "openai-responses" for block in reply.message.blocks)
    assert write_items(reply) == items


def test_unknown_call_types_are_server_tools():
    items = [
        {"type": "fax_call", "id": "fax_1", "call_id": "call_1", "arguments": '{"to": 1}', "line": 2},
        {"type": "fax_call_output", "id": "fax_2", "call_id": "call_1", "output": {"sent": True}},
    ]
    call_block, result = decode_items(*items).message.blocks

    assert call_block == ServerToolUse(
        "call_1", "fax", '{"to": 1}', kind="fax_call", meta=OpenAiMeta(id="fax_1"), extra='{"line":2}'
    )
    assert (result.tool_use_id, result.kind, json.loads(result.content)) == (
        "call_1",
        "fax_call_output",
        {"sent": True},
    )
    assert write_items(decode_items(*items)) == items


def test_function_call_keeps_exact_arguments():
    assert decode_items(call(' {"n":1.10 , "a":[]}')).message.blocks[0].args == ' {"n":1.10 , "a":[]}'
    block = decode_items(CLIENT["function_call"]).message.blocks[0]

    assert (block.id, block.name, block.kind, block.meta) == ("call_1", "weather", "function", OpenAiMeta(id="fc_1"))
    assert json.loads(block.extra) == {
        "status": "completed",
        "namespace": "ns",
        "caller": {"type": "program", "caller_id": "call_9"},
        "async": True,
    }


@pytest.mark.parametrize("kind", sorted(set(CLIENT) - {"function_call"}))
def test_client_calls_are_tool_uses(kind):
    item = CLIENT[kind]
    (block,) = decode_items(item).message.blocks
    field = {"custom_tool_call": "input", "apply_patch_call": "operation"}.get(kind)
    field = field or ("action" if "action" in item else "arguments")

    assert isinstance(block, ToolUse)
    assert block.kind == ("custom" if kind == "custom_tool_call" else kind)
    assert block.id == item.get("call_id", item["id"])
    assert item[field] in (block.args, json.loads(block.args) if kind != "custom_tool_call" else None)
    assert decode_items(item).message.stop_reason == "tool_calls"


@pytest.mark.parametrize("name", sorted(SERVER_CALLS))
def test_server_calls_are_server_tool_uses(name):
    item = SERVER_CALLS[name]
    (block,) = decode_items(item).message.blocks

    assert isinstance(block, ServerToolUse)
    assert (block.kind, block.meta.id) == (item["type"], item["id"])
    assert decode_items(item).message.stop_reason == "stop"


def test_server_call_input_is_readable():
    assert json.loads(decode_items(SERVER_CALLS["web_search_call"]).message.blocks[0].args)["query"] == "rain"
    other = decode_items(SERVER_CALLS["web_search_call of another host"]).message.blocks[0]
    assert (other.name, other.args) == ("web_search_with_snippets", '{"query":"rain"}')
    assert decode_items(SERVER_CALLS["code_interpreter_call"]).message.blocks[0].args == "print(1)"
    assert decode_items(SERVER_CALLS["program"]).message.blocks[0].id == "call_9"
    assert decode_items(SERVER_CALLS["mcp_call"]).message.blocks[0].name == "roll"


def test_input_in_unexpected_form_is_read_and_unchanged():
    items = [
        call() | {"arguments": {"city": "Oslo"}},
        {"id": "cu_2", "type": "computer_call", "call_id": "call_3", "actions": [{"type": "wait"}]},
        {"id": "mcp_2", "type": "mcp_call", "name": "mcp", "arguments": {"a": 1}, "call_id": "mcp_2"},
    ]
    reply = decode_items(*items)

    assert [json.loads(block.args) for block in reply.message.blocks] == [
        {"city": "Oslo"},
        [{"type": "wait"}],
        {"a": 1},
    ]
    assert write_items(reply) == items


@pytest.mark.parametrize("kind", sorted(RESULTS))
def test_output_items_are_tool_results(kind):
    (block,) = decode_items(RESULTS[kind]).message.blocks

    assert isinstance(block, ServerToolResult)
    assert (block.kind, block.tool_use_id) == (RESULTS[kind]["type"], RESULTS[kind].get("call_id") or "")
    json.loads(block.content)


def test_generated_image_is_image_block():
    (image,) = decode_items(IMAGE).choices[0].images

    assert (image.data, image.mime, image.meta) == ("UklGRg==", "image/webp", OpenAiMeta(id="ig_1"))
    assert json.loads(image.extra)["revised_prompt"] == "a boat"


@pytest.mark.parametrize(
    "result, mime, url",
    [
        ("/9j/4AA", "image/jpeg", ""),
        ("UklGRiQAAABXRUJQVlA4", "image/webp", ""),
        ("AAAA", "", ""),
        ("\u00e9\u00e9\u00e9\u00e9", "", ""),
        ("https://x/y.png", "", "https://x/y.png"),
    ],
)
def test_image_type_is_detected_from_data(result, mime, url):
    item = {"id": "ig_1", "type": "image_generation_call", "status": "completed", "result": result}
    block = decode_items(item).message.blocks[0]

    assert isinstance(block, Image)
    assert (block.mime, block.url) == (mime, url)
    assert write_items(decode_items(item)) == [item]


def test_compaction_holds_encrypted_content():
    (block,) = decode_items(MARKED["compaction"]).message.blocks

    assert isinstance(block, Marker)
    assert block.meta == OpenAiMeta(id="cmp_1", encrypted_content="gAAA-cmp")


def test_annotations_are_citations_with_raw_object():
    (block,) = decode_items(message(text("Rain.", annotations=[PAGE, FILE]))).message.blocks
    page, file = block.citations

    assert page == UrlCitation("https://example.com", "Rain", start_index=0, end_index=4, raw=page.raw)
    assert isinstance(file, OtherCitation)
    assert [json.loads(page.raw), json.loads(file.raw)] == [PAGE, FILE]


@pytest.mark.parametrize("annotations", [[], None, ["odd"], "odd", [{"type": "url_citation"}]])
def test_other_annotations_are_unchanged_without_url_citation(annotations):
    """Ordinary text has `annotations: []`."""
    item = message(text("Hi.", annotations=annotations))
    reply = decode_items(item)

    assert not any(isinstance(citation, UrlCitation) for citation in reply.choices[0].citations)
    assert write_items(reply) == [item]


def test_refusal_is_separate_block():
    (block,) = decode_items(message({"type": "refusal", "refusal": "No."})).message.blocks

    assert (type(block), block.text) == (Refusal, "No.")


def test_reasoning_text_joins_summary_parts():
    (block,) = decode_items(reasoning("One.", "", "Three.")).message.blocks

    assert block.text == "One.\n\nThree."
    assert [part["text"] for part in json.loads(block.extra)["summary"]] == ["One.", "", "Three."]
    assert block.meta == OpenAiMeta(id="rs_1", encrypted_content="gAAA-done")


def test_reasoning_text_is_content_without_summary():
    (block,) = decode_items(ITEMS["reasoning shown"]).message.blocks

    assert isinstance(block, Reasoning)
    assert (block.text, block.meta.encrypted_content) == ("Hm.", None)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "reasoning", "encrypted_content": "gAAA", "summary": []},
        {"type": "reasoning", "id": "rs_1"},
        {"type": "reasoning", "id": "rs_1", "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "reasoning", "id": "", "summary": None, "encrypted_content": None, "content": None},
    ],
)
def test_incomplete_reasoning_items_round_trip(item):
    """Without an id, without a summary, with nulls."""
    reply = decode_items(item)

    assert isinstance(reply.message.blocks[0], Reasoning)
    assert write_items(reply) == [item]


def test_call_without_id_gets_id_that_is_not_sent():
    item = {"type": "function_call", "name": "f", "arguments": "{}"}
    block = decode_items(item).message.blocks[0]

    assert (block.id_generated, block.id[:4]) == (True, "tnt_")
    assert decode_items(item) == decode_items(item)
    assert len({block.id for block in decode_items(item, item).message.blocks}) == 2
    assert write_items(decode_items(item)) == [item]


def test_call_without_arguments_or_name_round_trip():
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1"}
    reply = decode_items(item)

    assert (reply.message.blocks[0].args_missing, reply.message.blocks[0].args) == (True, "")
    assert loss_kinds(reply) == ["nameless-call"]
    assert write_items(reply) == [item]


@pytest.mark.parametrize("args", ["", "{}", "{broken", "null"])
def test_any_arguments_round_trip(args):
    reply = decode_items(call(args))

    assert reply.message.blocks[0].args == args
    assert bool(reply.message.blocks[0].args_error) == (args == "{broken")
    assert loss_kinds(reply) == (["broken-arguments"] if args == "{broken" else [])
    assert write_items(reply) == [call(args)]


def test_lone_surrogates_round_trip():
    raw = b'{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"a\\ud83d"}]}]}'
    reply = decode_body(decoder(), raw)

    assert reply.text == "a\ud83d"
    assert b"a\\ud83d" in jsonio.encode(verbatim(reply.message))


def test_verbatim_of_image_without_item():
    assert verbatim(AssistantMessage((Image(data="AAAA"),))) == [{"type": "image_generation_call", "result": "AAAA"}]
    assert write_items(decode_items()) == []
