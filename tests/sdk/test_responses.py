"""Comparison with the official SDK: it reads the same replies, and its types accept our requests."""

from __future__ import annotations

import json

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from openai.types.responses.response_input_param import ResponseInputParam
from pydantic import TypeAdapter

from tenuto.core.blocks import Document, Image, Reasoning, Refusal, Text, ToolUse
from tenuto.core.messages import SystemMessage, ToolResult, ToolResults, user
from tenuto.core.provider import ModelTraits
from tenuto.core.request import JsonSchema, NamedTool, ServerTool, ToolDefinition
from tenuto.wire.decoder import decode_stream
from wire.responses.cases import CLIENT, IMAGE, MARKED, OURS, RESULTS, STREAMS, body, call, message, reasoning, text
from wire.responses.replies import decode_items, decoder, write_items
from wire.responses.test_encode import SCHEMA, wire

EVENT = TypeAdapter(ResponseStreamEvent)
REQUEST = TypeAdapter(ResponseCreateParamsNonStreaming)
INPUT = TypeAdapter(ResponseInputParam)
SHELL = {"type": "local_shell_call_output", "id": "call_4", "output": "a"}
KNOWN = [
    *(CLIENT[kind] for kind in CLIENT),
    *OURS,
    *(RESULTS[kind] for kind in RESULTS if kind != "local_shell_call_output"),
    *MARKED.values(),
    IMAGE,
    message(text("Hi."), {"type": "refusal", "refusal": "No."}, phase="commentary"),
    reasoning("Hm.", content=[{"type": "reasoning_text", "text": "Hm."}], status="completed"),
]


@pytest.mark.parametrize("item", KNOWN, ids=lambda item: f"{item['type']}-{item['id']}")
def test_sdk_reads_the_same_items(item):
    """Each typed field of the SDK has the value that we write back."""
    (theirs,) = Response.model_validate_json(body(item)).output

    assert theirs.type == item["type"]
    assert type(theirs).model_fields["type"].annotation is not str
    assert theirs.to_dict(mode="json") == write_items(decode_items(item))[0]


@pytest.mark.parametrize("name", sorted(STREAMS.keys() - {"hosted elsewhere"}))
def test_sdk_reads_the_same_stream(name):
    lines = [line.removeprefix("data: ") for line in STREAMS[name].decode().splitlines() if line.startswith("data: ")]
    last = [EVENT.validate_json(line) for line in lines][-1].response
    ours = decode_stream(decoder(), [STREAMS[name]])

    assert last.output_text == "".join(b.text for b in ours.message.blocks if isinstance(b, Text))
    assert [item.to_dict(mode="json") for item in last.output] == write_items(ours)
    assert last.usage.to_dict(mode="json") == json.loads(ours.raw_usage)
    assert (last.status, last.id, last.model) == (ours.message.raw_stop_reason, ours.id, ours.model)


def test_blocks_equal_the_sdk_types():
    items = [reasoning("A.", "B."), message(text("Hi."), {"type": "refusal", "refusal": "No."}), call()]
    thought, reply_message, tool_call = Response.model_validate_json(body(*items)).output
    ours = decode_items(*items).message.blocks

    assert isinstance(ours[0], Reasoning)
    assert ours[0].text == "\n".join(part.text for part in thought.summary)
    assert ours[0].meta.encrypted_content == thought.encrypted_content
    assert (type(ours[1]), ours[1].text) == (Text, reply_message.content[0].text)
    assert (type(ours[2]), ours[2].text) == (Refusal, reply_message.content[1].refusal)
    assert isinstance(ours[3], ToolUse)
    assert (ours[3].id, ours[3].name, ours[3].args) == (tool_call.call_id, tool_call.name, tool_call.arguments)


def encode_checked(*messages, **fields) -> dict:
    """Encode a request and validate it with the SDK's parameter types, whose checks of iterables are lazy."""
    made = json.loads(wire(*messages, **fields).body)
    INPUT.validate_python(made["input"])
    REQUEST.validate_python(made)
    for item in made["input"]:
        list(INPUT.validate_python([item]))
    return made


def test_sdk_types_accept_our_parameters():
    encode_checked(
        SystemMessage("Be brief."),
        user("Hi.", Image(data="AA=="), Document(text="a"), Document(url="u"), Document(file_id="f")),
        tools=(
            ToolDefinition("f", "d", SCHEMA),
            ToolDefinition("sql", kind="custom"),
            ServerTool("web_search"),
            ServerTool("code_execution"),
            ServerTool("file_search", options={"vector_store_ids": ["v"]}),
            ServerTool("mcp", options={"server_label": "d"}),
            ServerTool("image_generation"),
        ),
        tool_choice=NamedTool("f"),
        parallel_tool_calls=True,
        response_format=JsonSchema(SCHEMA, strict=True),
        effort="high",
        max_tokens=9,
        temperature=0.5,
        top_p=0.5,
        top_logprobs=1,
        user="u",
        verbosity="low",
        service_tier="flex",
        traits=ModelTraits(thinking=("effort",)),
    )


@pytest.mark.parametrize("item", KNOWN, ids=lambda item: f"{item['type']}-{item['id']}")
def test_sdk_types_accept_our_replay(item):
    reply = decode_items(item, message(text("So."), id="msg_9")).message

    assert len(encode_checked(reply, store=True)["input"]) == 2


@pytest.mark.parametrize("kind", sorted(CLIENT))
def test_sdk_types_accept_our_results(kind):
    call_made = decode_items(CLIENT[kind]).message
    content = {"computer_call": (Image(url="https://x/y.png"),), "tool_search_call": "[]"}.get(kind, "done")
    made = encode_checked(call_made, ToolResults((ToolResult(call_made.blocks[0].id, content),)))

    assert len(made["input"]) == 2


def test_sdk_types_refuse_an_invalid_request():
    with pytest.raises(ValueError, match="validation error"):
        INPUT.validate_python([{"type": "function_call_output", "call_id": "c"}])
    assert INPUT.validate_python([SHELL])
