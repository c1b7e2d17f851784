"""Replay the assistant's turns: same order, all ids or none, only complete reasoning."""

from __future__ import annotations

import json

import pytest

from tenuto.core.blocks import (
    AnthropicMeta,
    Audio,
    CodeExecution,
    Image,
    Marker,
    Opaque,
    OpenAiMeta,
    Reasoning,
    Refusal,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.core.messages import AssistantMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.provider import Provider, ResponsesSwitches, Target
from tenuto.core.request import ChatRequest
from tenuto.wire.body_builder import BodyBuilder
from tenuto.wire.responses.encode import encode
from tenuto.wire.responses.protocol import RESPONSE_ONLY
from wire.responses.cases import CLIENT, IMAGE, ITEMS, MARKED, RESULTS, SERVER_CALLS, call, message, reasoning, text
from wire.responses.replies import decode_items

COMMON = ResponsesSwitches()


def encode_input(*messages, switches: ResponsesSwitches = COMMON, **fields):
    """Return the input of a request with these messages, and its losses as (kind, place)."""
    target = Target(Provider("here", "openai-responses", "", responses=switches), "gpt-5.6-sol", "openai-responses")
    wire = encode(BodyBuilder(ChatRequest(model="m", messages=messages, **fields), target))
    return json.loads(wire.body)["input"], [(loss.kind, str(loss.location)) for loss in wire.losses]


def encode_turn(*items: dict, **fields):
    return encode_input(decode_items(*items).message, **fields)


def without(item: dict, *names: str) -> dict:
    return {name: value for name, value in item.items() if name not in names}


@pytest.mark.parametrize("name", sorted(ITEMS))
def test_item_is_replayed_without_response_only_fields(name):
    """Reasoning needs a follower, so each item gets one."""
    item = ITEMS[name]
    items, _ = encode_turn(item, message(text("So."), id="msg_9"), store=True)
    want = {key: value for key, value in item.items() if key not in RESPONSE_ONLY}
    if item["type"] == "reasoning":
        want = without(want, "status")

    assert items == [want, message(text("So."), id="msg_9")]


def test_turn_is_replayed_in_order():
    items = [
        reasoning("Hm."),
        message(text("A."), phase="commentary"),
        SERVER_CALLS["web_search_call"],
        call(),
        CLIENT["shell_call"],
    ]

    assert encode_turn(*items) == (items, [])


def test_response_only_fields_have_reasons_and_are_omitted():
    assert all(RESPONSE_ONLY.values())
    assert encode_turn(RESULTS["apply_patch_call_output"])[0] == [
        without(RESULTS["apply_patch_call_output"], "created_by")
    ]


# --- reasoning and ids ------------------------------------------------------------------------------------------------


def test_reasoning_without_encrypted_content_is_omitted_with_ids():
    items, losses = encode_turn(reasoning("Hm.", token=None), message(text("A.")), call())

    assert items == [without(message(text("A.")), "id", "status"), without(call(), "id")]
    assert losses == [
        ("reasoning-left-out", "messages[0].blocks[0]"),
        ("id-left-out", "messages[0].blocks[1]"),
        ("id-left-out", "messages[0].blocks[2]"),
    ]


def test_stored_turn_needs_no_encrypted_content():
    items = [reasoning("Hm.", token=None), call()]

    assert encode_turn(*items, store=True) == (items, [])
    assert encode_turn(*items, switches=ResponsesSwitches(store=True)) == (items, [])


def test_server_may_accept_plain_reasoning():
    items = [reasoning(token=None, content=[{"type": "reasoning_text", "text": "Hm."}]), call()]

    assert encode_turn(*items, switches=ResponsesSwitches(plain_reasoning=True)) == (items, [])


@pytest.mark.parametrize("tail", [1, 2])
def test_reasoning_without_follower_is_omitted(tail):
    """A truncated stream leaves such turns, and so does a server that reasons twice at the end."""
    trailing = [reasoning("Hm.", id=f"rs_{at}") for at in range(2, 2 + tail)]
    items, losses = encode_turn(reasoning("A."), call(), *trailing)

    assert items == [without(reasoning("A."), "id"), without(call(), "id")]
    assert [kind for kind, _ in losses] == ["reasoning-left-out"] * tail + ["id-left-out"] * 2


def test_consecutive_leading_reasoning_is_sent():
    items = [reasoning("A.", id="rs_1"), reasoning("B.", id="rs_2"), call()]

    assert encode_turn(*items) == (items, [])


def test_stored_reasoning_is_omitted_without_id():
    items, losses = encode_turn(reasoning("A.", token=None), call(), reasoning("B.", id="rs_2"), store=True)

    assert items == [without(call(), "id")]
    assert len(losses) == 3


def test_ids_are_omitted_when_follower_has_no_id():
    items, losses = encode_turn(reasoning("A."), without(call(), "id"))

    assert items == [without(reasoning("A."), "id"), without(call(), "id")]
    assert losses == [("id-left-out", "messages[0].blocks[0]")]


def test_repeated_turn_keeps_its_ids_once():
    reply = decode_items(reasoning("A."), call()).message
    items, _ = encode_input(reply, reply)

    assert items[:2] == [reasoning("A."), call()]
    assert items[2:] == [without(reasoning("A."), "id"), without(call(), "id")]


def test_turn_with_duplicate_ids_is_unchanged():
    items = [reasoning("A."), SERVER_CALLS["web_search_call"], reasoning("B."), message(text("C."))]

    assert encode_turn(*items) == (items, [])


def test_ids_are_omitted_when_one_is_too_long():
    items = [reasoning("A.", id="rs_" + "1" * 70), call()]

    assert encode_turn(*items)[0] == [without(item, "id") for item in items]
    assert encode_turn(*items, switches=ResponsesSwitches(call_id_max=0)) == (items, [])


def test_approval_request_keeps_its_id():
    request = CLIENT["mcp_approval_request"]
    items, _ = encode_input(
        decode_items(reasoning("A.", token=None), request).message, ToolResults((ToolResult("mcpr_1", "yes"),))
    )

    assert items == [
        request,
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True, "reason": "yes"},
    ]


def test_reasoning_always_has_summary_and_no_nulls():
    """The API requires `summary`, even an empty one; some servers refuse `content: null`."""
    bare = {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA", "content": None, "status": "completed"}
    items, _ = encode_turn(bare, call())

    assert items[0] == {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA", "summary": []}
    items, _ = encode_turn(bare, call(), switches=ResponsesSwitches(reasoning_status=True))
    assert items[0]["status"] == "completed"


def test_hand_made_reasoning_is_sent_as_summary():
    meta = OpenAiMeta(id="rs_1", encrypted_content="gAAA")
    call_made = ToolUse("call_1", "f", "{}", meta=OpenAiMeta(id="fc_1"))
    items, _ = encode_input(AssistantMessage((Reasoning("Hm.", meta=meta), call_made)))

    assert items[0] == {
        "type": "reasoning",
        "id": "rs_1",
        "encrypted_content": "gAAA",
        "summary": [{"type": "summary_text", "text": "Hm."}],
    }


@pytest.mark.parametrize("meta", [None, AnthropicMeta(signature="s")])
def test_reasoning_of_other_dialects_is_omitted(meta):
    reply = AssistantMessage((Reasoning("Hm.", meta=meta), Text("A.")))

    assert encode_input(reply) == (
        [{"type": "message", "role": "assistant", "content": "A."}],
        [("unsigned-reasoning", "messages[0].blocks[0]")],
    )


def test_ids_are_omitted_when_reasoning_has_no_token():
    """The server refuses a call with an id without its reasoning."""
    reply = decode_items(reasoning("Hm."), call()).message
    cut = AssistantMessage((Reasoning("Hm."), *reply.blocks[1:]))

    assert encode_input(cut)[0] == [without(call(), "id")]


# --- calls ------------------------------------------------------------------------------------------------------------


def test_arguments_are_sent_as_exact_text():
    assert encode_turn(call('{"n":1.10 }'))[0][0]["arguments"] == '{"n":1.10 }'
    assert encode_turn(call() | {"arguments": {"a": 1}})[0][0]["arguments"] == '{"a": 1}'
    assert encode_turn(without(call(), "arguments"))[0][0]["arguments"] == "{}"
    assert encode_turn(call("{broken"))[0][0]["arguments"] == "{broken"


def test_generated_id_pairs_call_with_result():
    """The server refuses a call without an id."""
    reply = decode_items(without(call(), "call_id")).message
    items, _ = encode_input(reply, ToolResults((ToolResult(reply.blocks[0].id, "rain"),)))

    assert items[0]["call_id"] == items[1]["call_id"] == reply.blocks[0].id


def test_built_in_call_of_other_dialect_is_function_call():
    items, _ = encode_input(AssistantMessage((ToolUse("c", "bash", '{"command": "ls"}', kind="bash_20250124"),)))

    assert items == [{"type": "function_call", "call_id": "c", "name": "bash", "arguments": '{"command": "ls"}'}]


def test_calls_move_to_end_of_turn_when_server_needs_it():
    items = [call(), message(text("A.")), CLIENT["custom_tool_call"], message(text("B."), id="msg_2")]
    ordered, losses = encode_turn(*items, switches=ResponsesSwitches(calls_last=True))

    assert ordered == [items[1], items[3], items[0], items[2]]
    assert losses == [("calls-last", "messages[0]")]
    assert encode_turn(items[1], items[0], switches=ResponsesSwitches(calls_last=True))[1] == []


# --- text and everything else -----------------------------------------------------------------------------------------


def test_hand_made_text_is_plain_message():
    items, losses = encode_input(AssistantMessage((Text("A."), Text(""), Text("B."), Refusal("No."))))

    assert items == [
        {"type": "message", "role": "assistant", "content": "A."},
        {"type": "message", "role": "assistant", "content": "B."},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    ]
    assert losses == []


def test_message_without_id_keeps_its_parts_together():
    reply = message(text("A."), text("B."), phase="commentary")
    items, _ = encode_turn(reasoning(token=None), reply)

    assert items == [without(reply, "id", "status")]


def test_opaque_items_are_replayed_and_may_lose_their_id():
    odd = {"type": "divination", "id": "d_1", "omen": 1}

    assert encode_turn(odd)[0] == [odd]
    assert encode_turn(odd, reasoning())[0] == [without(odd, "id")]


@pytest.mark.parametrize(
    "block",
    [
        Image(data="AAAA"),
        Audio(data="AAAA"),
        CodeExecution("1"),
        ServerToolUse("s", "web_search", "{}", kind="server_tool_use"),
        Marker("fallback"),
        Opaque("gemini", "{}"),
        Opaque("openai-responses", "no json"),
        Opaque("", "{}"),
    ],
)
def test_blocks_of_other_dialects_are_losses(block):
    items, losses = encode_input(AssistantMessage((block, Text("A."))))

    assert items == [{"type": "message", "role": "assistant", "content": "A."}]
    assert losses == [("unsupported-content", "messages[0].blocks[0]")]


def test_image_and_compaction_are_replayed():
    items = [IMAGE, MARKED["compaction"]]

    assert encode_turn(*items)[0] == [IMAGE, without(MARKED["compaction"], "created_by")]


def test_invalid_json_in_hand_made_block_is_sent_as_string():
    block = ServerToolUse("s", "web_search", "{broken", kind="web_search_call", meta=OpenAiMeta(id="ws_1"))

    assert encode_input(AssistantMessage((block,)))[0][0]["action"] == "{broken"


def test_item_reference_is_omitted_without_id():
    assert encode_turn({"type": "item_reference", "id": "msg_7"}, reasoning(), store=True)[0] == [
        {"type": "message", "role": "user", "content": ""}
    ]


def test_extra_fields_of_hand_made_text_are_sent():
    reply = AssistantMessage((Text("x", extra='{"annotations":[],"item":{"phase":"commentary"}}'), Text("y")))
    request = ChatRequest(model="m", messages=(reply, UserMessage("?")))
    items = json.loads(
        encode(BodyBuilder(request, Target(Provider("x", "openai-responses", ""), "m", "openai-responses"))).body
    )["input"]

    part = {"type": "output_text", "text": "x", "annotations": []}
    assert items[0] == {"type": "message", "role": "assistant", "phase": "commentary", "content": [part]}
    assert items[1] == {"type": "message", "role": "assistant", "content": "y"}
