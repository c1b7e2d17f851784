"""Items and blocks: every type has its block, and goes back exactly as it came."""

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
    HOSTED,
    IMAGE,
    ITEMS,
    MARKED,
    PAGE,
    RESULTS,
    call,
    message,
    reasoning,
    text,
)
from wire.responses.reading import decoder, rules, whole, written


@pytest.mark.parametrize("name", sorted(ITEMS))
def test_every_item_goes_back_as_it_came(name):
    """Nothing is lost, nothing is added, and no type that is known ends as an opaque block."""
    reply = whole(ITEMS[name])

    assert written(reply) == [ITEMS[name]]
    assert not any(isinstance(block, Opaque) for block in reply.message.blocks)
    assert reply.losses == ()


def test_all_items_of_one_reply_keep_their_order():
    assert written(whole(*ITEMS.values())) == list(ITEMS.values())


def test_number_literals_survive():
    """`1.10` is not `1.1` to a signature."""
    item = '{"type":"web_search_call","id":"ws_1","action":{"score":1.10,"big":12345678901234567890},"odd":1E2}'
    raw = f'{{"status":"completed","output":[{item}]}}'.encode()

    assert b'"score":1.10,"big":12345678901234567890' in jsonio.encode(verbatim(decode_body(decoder(), raw).message))
    assert b'"odd":1E2' in jsonio.encode(verbatim(decode_body(decoder(), raw).message))


def test_parts_of_a_message_share_its_id_and_the_first_holds_its_fields():
    one, two = whole(message(text("One."), text("Two."), phase="commentary")).message.blocks

    assert one.meta == two.meta == OpenAiMeta(id="msg_1")
    assert json.loads(one.extra)["item"] == {"status": "completed", "role": "assistant", "phase": "commentary"}
    assert "item" not in json.loads(two.extra)


def test_neighbouring_messages_stay_apart():
    """Also where they have no ids, or the same one."""
    for id in ("msg_1", ""):
        items = [message(text("One."), text("Two."), id=id), message(text("Three."), id=id)]

        assert written(whole(*items)) == items


@pytest.mark.parametrize("content", [[], "said as a string", None])
def test_a_message_without_parts_survives(content):
    item = message() | {"content": content}
    reply = whole(item)

    assert written(reply) == [item]
    assert reply.text == (content or "")


def test_a_message_without_content_is_opaque():
    item = {"type": "message", "id": "msg_1", "role": "assistant"}

    assert isinstance(whole(item).message.blocks[0], Opaque)
    assert written(whole(item)) == [item]


def test_unknown_parts_stay_in_their_message():
    parts = [{"type": "output_smell", "smell": "rain"}, text("So."), {"type": "output_text", "text": None}, "bare", 7]
    reply = whole(message(*parts))

    assert [type(block) for block in reply.message.blocks] == [Opaque, Text, Opaque, Opaque, Opaque]
    assert written(reply) == [message(*parts)]


def test_a_part_of_type_text_is_text():
    reply = whole(message({"type": "text", "text": "Hi."}))

    assert reply.text == "Hi."
    assert written(reply) == [message({"type": "text", "text": "Hi."})]


def test_what_others_said_is_not_taken_for_the_reply():
    """A compacted history repeats the user's words."""
    item = message({"type": "input_text", "text": "Hi."}, {"type": "input_image", "file_id": "f"}, role="user")
    reply = whole(item, object="response.compaction")

    assert reply.text == ""
    assert [(block.kind, block.text) for block in reply.message.blocks] == [
        ("input_text", "Hi."),
        ("input_image", None),
    ]
    assert written(reply) == [item]


def test_unknown_items_are_kept_word_for_word():
    items = [{"type": "divination", "id": "d_1", "omen": 1}, {"id": "no_type"}, {"type": 7}]
    reply = whole(*items)

    assert all(isinstance(block, Opaque) and block.dialect == "openai-responses" for block in reply.message.blocks)
    assert written(reply) == items


def test_unknown_calls_and_outputs_are_the_providers_own():
    """The name of a type tells enough to show it as what it is."""
    items = [
        {"type": "fax_call", "id": "fax_1", "call_id": "call_1", "arguments": '{"to": 1}', "line": 2},
        {"type": "fax_call_output", "id": "fax_2", "call_id": "call_1", "output": {"sent": True}},
    ]
    sent, answer = whole(*items).message.blocks

    assert sent == ServerToolUse(
        "call_1", "fax", '{"to": 1}', kind="fax_call", meta=OpenAiMeta(id="fax_1"), extra='{"line":2}'
    )
    assert (answer.tool_use_id, answer.kind, json.loads(answer.content)) == (
        "call_1",
        "fax_call_output",
        {"sent": True},
    )
    assert written(whole(*items)) == items


def test_a_function_call_keeps_its_exact_arguments():
    assert whole(call(' {"n":1.10 , "a":[]}')).message.blocks[0].args == ' {"n":1.10 , "a":[]}'
    block = whole(CLIENT["function_call"]).message.blocks[0]

    assert (block.id, block.name, block.kind, block.meta) == ("call_1", "weather", "function", OpenAiMeta(id="fc_1"))
    assert json.loads(block.extra) == {
        "status": "completed",
        "namespace": "ns",
        "caller": {"type": "program", "caller_id": "call_9"},
        "async": True,
    }


@pytest.mark.parametrize("kind", sorted(set(CLIENT) - {"function_call"}))
def test_calls_that_the_caller_answers_are_calls(kind):
    item = CLIENT[kind]
    (block,) = whole(item).message.blocks
    field = {"custom_tool_call": "input", "apply_patch_call": "operation"}.get(kind)
    field = field or ("action" if "action" in item else "arguments")

    assert isinstance(block, ToolUse)
    assert block.kind == ("custom" if kind == "custom_tool_call" else kind)
    assert block.id == item.get("call_id", item["id"])
    assert item[field] in (block.args, json.loads(block.args) if kind != "custom_tool_call" else None)
    assert whole(item).message.stop_reason == "tool_calls"


@pytest.mark.parametrize("name", sorted(HOSTED))
def test_calls_that_the_provider_makes_are_its_own(name):
    item = HOSTED[name]
    (block,) = whole(item).message.blocks

    assert isinstance(block, ServerToolUse)
    assert (block.kind, block.meta.id) == (item["type"], item["id"])
    assert whole(item).message.stop_reason == "stop"


def test_the_input_of_a_hosted_call_can_be_read():
    assert json.loads(whole(HOSTED["web_search_call"]).message.blocks[0].args)["query"] == "rain"
    other = whole(HOSTED["web_search_call of another host"]).message.blocks[0]
    assert (other.name, other.args) == ("web_search_with_snippets", '{"query":"rain"}')
    assert whole(HOSTED["code_interpreter_call"]).message.blocks[0].args == "print(1)"
    assert whole(HOSTED["program"]).message.blocks[0].id == "call_9"
    assert whole(HOSTED["mcp_call"]).message.blocks[0].name == "roll"


def test_input_in_an_unexpected_form_is_read_and_left_in_place():
    items = [
        call() | {"arguments": {"city": "Oslo"}},
        {"id": "cu_2", "type": "computer_call", "call_id": "call_3", "actions": [{"type": "wait"}]},
        {"id": "mcp_2", "type": "mcp_call", "name": "mcp", "arguments": {"a": 1}, "call_id": "mcp_2"},
    ]
    reply = whole(*items)

    assert [json.loads(block.args) for block in reply.message.blocks] == [
        {"city": "Oslo"},
        [{"type": "wait"}],
        {"a": 1},
    ]
    assert written(reply) == items


@pytest.mark.parametrize("kind", sorted(RESULTS))
def test_what_tools_gave_is_a_result(kind):
    (block,) = whole(RESULTS[kind]).message.blocks

    assert isinstance(block, ServerToolResult)
    assert (block.kind, block.tool_use_id) == (RESULTS[kind]["type"], RESULTS[kind].get("call_id") or "")
    json.loads(block.content)


def test_a_picture_shows_among_the_images():
    (picture,) = whole(IMAGE).choices[0].images

    assert (picture.data, picture.mime, picture.meta) == ("UklGRg==", "image/webp", OpenAiMeta(id="ig_1"))
    assert json.loads(picture.extra)["revised_prompt"] == "a boat"


@pytest.mark.parametrize(
    "result, mime, url", [("/9j/4AA", "image/jpeg", ""), ("AAAA", "", ""), ("https://x/y.png", "", "https://x/y.png")]
)
def test_a_picture_without_a_format_is_known_by_its_first_bytes(result, mime, url):
    item = {"id": "ig_1", "type": "image_generation_call", "status": "completed", "result": result}
    block = whole(item).message.blocks[0]

    assert isinstance(block, Image)
    assert (block.mime, block.url) == (mime, url)
    assert written(whole(item)) == [item]


def test_compaction_holds_its_ciphertext():
    (block,) = whole(MARKED["compaction"]).message.blocks

    assert isinstance(block, Marker)
    assert block.meta == OpenAiMeta(id="cmp_1", encrypted_content="gAAA-cmp")


def test_annotations_are_citations_with_their_raw_object():
    (block,) = whole(message(text("Rain.", annotations=[PAGE, FILE]))).message.blocks
    page, file = block.citations

    assert page == UrlCitation("https://example.com", "Rain", start_index=0, end_index=4, raw=page.raw)
    assert isinstance(file, OtherCitation)
    assert [json.loads(page.raw), json.loads(file.raw)] == [PAGE, FILE]


@pytest.mark.parametrize("annotations", [[], None, ["odd"], "odd", [{"type": "url_citation"}]])
def test_annotations_that_cite_nothing_are_kept_and_are_no_web_page(annotations):
    """`annotations: []` stands on ordinary text."""
    item = message(text("Hi.", annotations=annotations))
    reply = whole(item)

    assert not any(isinstance(citation, UrlCitation) for citation in reply.choices[0].citations)
    assert written(reply) == [item]


def test_a_refusal_is_a_block_of_its_own():
    (block,) = whole(message({"type": "refusal", "refusal": "No."})).message.blocks

    assert (type(block), block.text) == (Refusal, "No.")


def test_reasoning_joins_its_summaries_by_a_line_break_and_keeps_the_array():
    (block,) = whole(reasoning("One.", "", "Three.")).message.blocks

    assert block.text == "One.\n\nThree."
    assert [part["text"] for part in json.loads(block.extra)["summary"]] == ["One.", "", "Three."]
    assert block.meta == OpenAiMeta(id="rs_1", encrypted_content="gAAA-done")


def test_reasoning_without_a_summary_shows_its_content():
    (block,) = whole(ITEMS["reasoning shown"]).message.blocks

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
def test_odd_reasoning_survives(item):
    """Without an id, without a summary, with nulls: none of it is skipped."""
    reply = whole(item)

    assert isinstance(reply.message.blocks[0], Reasoning)
    assert written(reply) == [item]


def test_a_call_without_an_id_gets_one_that_is_left_off_again():
    item = {"type": "function_call", "name": "f", "arguments": "{}"}
    block = whole(item).message.blocks[0]

    assert (block.id_generated, block.id[:4]) == (True, "tnt_")
    assert whole(item) == whole(item)
    assert len({block.id for block in whole(item, item).message.blocks}) == 2
    assert written(whole(item)) == [item]


def test_a_call_without_arguments_or_name_is_kept():
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1"}
    reply = whole(item)

    assert (reply.message.blocks[0].args_missing, reply.message.blocks[0].args) == (True, "")
    assert rules(reply) == ["nameless-call"]
    assert written(reply) == [item]


@pytest.mark.parametrize("args", ["", "{}", "{broken", "null"])
def test_arguments_are_kept_whatever_they_are(args):
    reply = whole(call(args))

    assert reply.message.blocks[0].args == args
    assert bool(reply.message.blocks[0].args_error) == (args == "{broken")
    assert rules(reply) == (["broken-arguments"] if args == "{broken" else [])
    assert written(reply) == [call(args)]


def test_half_characters_survive():
    raw = b'{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"a\\ud83d"}]}]}'
    reply = decode_body(decoder(), raw)

    assert reply.text == "a\ud83d"
    assert b"a\\ud83d" in jsonio.encode(verbatim(reply.message))


def test_blocks_of_other_dialects_have_no_item():
    assert verbatim(AssistantMessage((Image(data="AAAA"),))) == [{"type": "image_generation_call", "result": "AAAA"}]
    assert written(whole()) == []
