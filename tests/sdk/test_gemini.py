"""Comparison with the official SDK: it reads the same replies, and its types accept our requests."""

from __future__ import annotations

import base64
import json

import pytest
from google.genai import types

from tenuto.core.blocks import (
    Audio,
    CodeExecution,
    CodeResult,
    Document,
    Image,
    Reasoning,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.core.messages import AssistantMessage, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.request import JsonSchema, NamedTool, ServerTool, Thinking, ToolDefinition
from tenuto.wire.gemini.protocol import STOP_REASONS
from wire.gemini.cases import PARTS, TYPED, USAGE, chunk, text
from wire.gemini.decode_helpers import stream, whole
from wire.gemini.encode_helpers import LEVEL, SIGNED, body, target

UNKNOWN_TO_SDK = {"odd_types", "call_with_more"}
FUNCTIONS = (ToolDefinition("f", "Does f", {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}),)


def sdk_part(part: types.Part) -> tuple:
    """Return kind, content and signature of an SDK part."""
    signature = base64.b64encode(part.thought_signature).decode() if part.thought_signature else None
    if part.function_call:
        return ToolUse, (part.function_call.name, part.function_call.args or {}), signature
    if part.inline_data:
        return part.inline_data.mime_type, part.inline_data.data, signature
    if part.file_data:
        return part.file_data.mime_type or "", part.file_data.file_uri, signature
    if part.executable_code:
        return CodeExecution, (part.executable_code.code or ""), signature
    if part.code_execution_result:
        return CodeResult, part.code_execution_result.outcome.value, signature
    if part.tool_call:
        return ServerToolUse, (part.tool_call.id or "", part.tool_call.tool_type.value), signature
    if part.tool_response:
        return ServerToolResult, part.tool_response.response, signature
    return (Reasoning if part.thought else Text), part.text or "", signature


def block_part(block) -> tuple:
    """Return kind, content and signature of a block."""
    signature = block.meta.thought_signature if block.meta else None
    match block:
        case ToolUse():
            return ToolUse, (block.name, json.loads(block.args or "{}")), signature
        case Image() | Audio() | Document():
            return block.mime, base64.b64decode(block.data) if block.data else block.url, signature
        case CodeExecution():
            return CodeExecution, block.code, signature
        case CodeResult():
            return CodeResult, block.outcome, signature
        case ServerToolUse():
            return ServerToolUse, (block.id, block.name), signature
        case ServerToolResult():
            return ServerToolResult, json.loads(block.content or "null"), signature
    return type(block), block.text, signature


@pytest.mark.parametrize("name", sorted(TYPED - UNKNOWN_TO_SDK))
def test_sdk_reads_the_same_parts(name):
    body = chunk(*PARTS[name], reason="STOP", usageMetadata=USAGE)
    theirs = types.GenerateContentResponse.model_validate(body)
    response = whole(body)

    assert [block_part(block) for block in response.message.blocks] == [
        sdk_part(p) for p in theirs.candidates[0].content.parts
    ]
    assert theirs.candidates[0].finish_reason.value == response.message.raw_stop_reason
    assert theirs.usage_metadata.total_token_count == response.usage.total_tokens
    assert (theirs.response_id, theirs.model_version) == (response.id, response.model)


def test_sdk_reads_the_same_text_in_a_stream():
    chunks = [chunk(text("Hel")), chunk(text("lo")), chunk(text("", thoughtSignature="c2ln"), reason="STOP")]
    theirs = "".join(types.GenerateContentResponse.model_validate(c).text or "" for c in chunks)

    assert stream(*chunks).text == theirs


@pytest.mark.parametrize("reason", list(types.FinishReason))
def test_all_finish_reasons_of_the_sdk_are_known(reason):
    assert reason.value in STOP_REASONS


def check_request(written: dict) -> None:
    """Validate every part of a request with the SDK's types, which refuse unknown fields."""
    for content in written.pop("contents"):
        types.Content.model_validate(content)
    for tool in written.pop("tools", []):
        types.Tool.model_validate(tool)
    if "toolConfig" in written:
        types.ToolConfig.model_validate(written.pop("toolConfig"))
    if "systemInstruction" in written:
        types.Content.model_validate(written.pop("systemInstruction"))
    config = types.GenerateContentConfig.model_validate({**written.pop("generationConfig", {}), **written})
    assert isinstance(config, types.GenerateContentConfig)


@pytest.mark.parametrize("name", sorted(TYPED - UNKNOWN_TO_SDK))
def test_sdk_types_accept_received_parts(name):
    check_request(body("Hi", whole(chunk(*PARTS[name], reason="STOP")).message, "Go on", to=target(LEVEL)))


def test_sdk_types_accept_a_conversation():
    """With every kind of content."""
    call = ToolUse("c1", "f", '{"a":"x"}', meta=SIGNED)
    messages = (
        SystemMessage("Be kind."),
        UserMessage((Text("Look"), Image("AAAA", "image/png", detail="high"), Image(url="https://a.example/a.png"))),
        AssistantMessage((Reasoning("Hm.", meta=SIGNED), Text("", meta=SIGNED), call, ToolUse("c2", "f", "{}"))),
        ToolResults((ToolResult("c1", (Text("a"), Image("AAAA", "image/png"))), ToolResult("c2", "no", is_error=True))),
        UserMessage((Document("JVBERi0x"), Audio("SUQz", "audio/mpeg"), Document(file_id="files/1", mime="video/mp4"))),
        AssistantMessage((ToolUse("c3", "f", "{}"),)),
        ToolResults((ToolResult("c3", "ok"),)),
    )
    check_request(
        body(
            *messages,
            to=target(LEVEL),
            tools=(*FUNCTIONS, ServerTool("web_search"), ServerTool("code_execution"), ServerTool("url_context")),
            tool_choice=NamedTool("f"),
            effort="low",
            thinking=Thinking(show=True),
            response_format=JsonSchema({"type": "object", "properties": {"a": {"type": "string"}}}),
            temperature=1.0,
            top_p=0.9,
            top_k=3,
            max_tokens=100,
            stop=("a", "b"),
            seed=1,
            n=2,
            frequency_penalty=0.1,
            presence_penalty=0.1,
            top_logprobs=2,
            modalities=("text", "audio"),
            audio={"voice": "Kore"},
            service_tier="flex",
            store=False,
            extra_body={"cachedContent": "cachedContents/1"},
        )
    )


def test_sdk_types_accept_the_upper_case_schema():
    check_request(
        body(
            to=target(json_schema=False),
            tools=FUNCTIONS,
            response_format=JsonSchema(
                {
                    "type": "object",
                    "properties": {"title": {"anyOf": [{"$ref": "#/$defs/T"}, {"type": "null"}]}, "n": {"const": 3}},
                    "required": ["title"],
                    "$defs": {"T": {"enum": ["a", "b"], "maxLength": 3}},
                }
            ),
        )
    )


def test_sdk_types_refuse_invalid_parts():
    """An unknown field and a signature inside the call are refused."""
    with pytest.raises(ValueError, match="Extra inputs"):
        types.Content.model_validate(
            {"role": "model", "parts": [{"functionCall": {"name": "f", "thoughtSignature": "x"}}]}
        )
