"""Encode a request as Anthropic Messages."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    Block,
    Document,
    Image,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolUse,
)
from tenuto.core.loss import Location
from tenuto.core.media_types import split_data_url
from tenuto.core.messages import AssistantMessage, Content, Message, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest, JsonSchema
from tenuto.wire.anthropic.blocks import write_block
from tenuto.wire.anthropic.options import cache_control, write_options
from tenuto.wire.anthropic.protocol import DIALECT
from tenuto.wire.anthropic.replay_rules import block_type, disable_thinking_inside_tool_loop, drop_unfinished_blocks
from tenuto.wire.body_builder import BodyBuilder, TurnList, extra_fields, raw_object, with_locations
from tenuto.wire.rawjson import object_or_empty
from tenuto.wire.urls import model_path

_WireBlock: TypeAlias = dict[str, Any] | Raw | str
"""A block in the body. A block that a caller made by hand may be any JSON value."""


def encode(builder: BodyBuilder) -> WireRequest:
    request, target, body = builder.request, builder.target, builder.body
    body["model"] = target.model
    writer = _MessageWriter(builder)
    for index, message in enumerate(request.transcript):
        writer.add(message, Location(index))
    writer.finish()
    system = writer.system(_format_instruction(request, target))
    write_options(builder)
    if system is not None:
        body["system"] = system
    body["messages"] = drop_unfinished_blocks(writer.turns, builder)
    if "thinking" in body:
        disable_thinking_inside_tool_loop(body["messages"], builder)
    if request.container is not None:
        body["container"] = request.container
    elif writer.last_extra:
        container = object_or_empty(extra_fields(writer.last_extra).get("container"))
        if container and any("type" in tool or "allowed_callers" in tool for tool in body.get("tools", ())):
            # Server tools continue in the container of the last turn.
            builder.set_if_given(container=jsonio.text_of(container.get("id")) or None)
    if version := target.provider.anthropic.raw_predict:
        del body["model"]
        body["anthropic_version"] = version
        verb = "streamRawPredict" if request.stream else "rawPredict"
        return builder.finish(f"{model_path(target.model)}:{verb}")
    if "anthropic-version" not in target.provider.headers:
        builder.headers["anthropic-version"] = "2023-06-01"
    return builder.finish("/messages")


def verbatim(message: AssistantMessage) -> list[Any]:
    """Write the content blocks of a received message as they were received."""
    return [write_block(block) for block in message.blocks]


def _format_instruction(request: ChatRequest, target: Target) -> str:
    """Return the instruction that asks for JSON; empty if a parameter does."""
    wanted = request.response_format
    if wanted == "json_object":
        return "Respond with valid JSON only."
    if isinstance(wanted, JsonSchema) and target.traits.structured_output != "native":
        return f"Respond with JSON matching this schema: {jsonio.as_text(jsonio.encode(wanted.schema))}"
    return ""


class _MessageWriter:
    """Write the messages. Adjacent messages of one role share one message, in which tool results come first."""

    def __init__(self, builder: BodyBuilder) -> None:
        self._builder = builder
        self._system: list[tuple[Location, Text]] = []
        self.turns = TurnList(builder, "content", lambda text: {"type": "text", "text": text})
        self.last_extra = ""
        """The extra fields of the last assistant message."""

    def add(self, message: Message, location: Location) -> None:
        match message:
            case UserMessage():
                if message.name:
                    place = location.field("name")
                    self._builder.record_loss("unsupported-field", place, message.name, "say it in the text")
                self.turns.append("user", self._write_parts(message.parts, location), location)
            case ToolResults():
                results = self._builder.write_all(with_locations(message.results, location), self._write_result)
                self.turns.append("user", results, location)
            case AssistantMessage():
                self.last_extra = message.extra
                blocks = self._builder.write_all(with_locations(message.blocks, location), self._write_block)
                if not blocks:
                    self._builder.leave_out_if_empty(message, location)
                self.turns.append("assistant", blocks, location)
            case SystemMessage():
                self._add_system(message, location)

    def finish(self) -> None:
        """Complete the last turn, and move the tool results of each user message to its beginning."""
        self.turns.fill_empty_turn()
        for message in self.turns.messages:
            if message["role"] == "user":
                message["content"].sort(key=lambda part: block_type(part) != "tool_result")

    def system(self, instruction: str) -> str | list[_WireBlock] | None:
        """Write the system prompt: a string, or blocks if a part has `cache_control` or extra fields."""
        parts = [*self._system, *([(Location(), Text(instruction))] if instruction else ())]
        if not any(part.cache or part.extra for _, part in parts):
            for location, part in parts:
                if part.text:
                    self._builder.place(location, self._builder.body, "system")
            return "\n\n".join(part.text for _, part in parts if part.text) or None
        return self._builder.write_all(parts, self._write_part) or None

    def _add_system(self, message: SystemMessage, location: Location) -> None:
        messages = self.turns.messages
        if messages:
            if not str(message).strip():
                return  # the provider refuses blank text
            if self._builder.target.traits.system_mid == "native" and messages[-1]["role"] == "user":
                messages.append({"role": "system", "content": str(message)})
                self.turns.locations.append(location)
                self._builder.place_texts(location, message.parts, messages[-1], "content")
                return
            self._builder.record_loss("system-hoisted", location, "instructions in mid-conversation moved to the top")
        self._system += with_locations(message.parts, location)

    def _write_parts(self, parts: tuple[Content, ...], location: Location) -> list[_WireBlock]:
        """Write the parts of a user message or of a tool result."""
        return self._builder.write_all(self._builder.accepted_parts(parts, location), self._write_part)

    def _write_part(self, part: Content, place: Location) -> _WireBlock | None:
        """Write a part; None if it is empty, and with a loss if the dialect does not accept it."""
        block: dict[str, Any]
        match part:
            case Text():
                if not part.text:
                    return None
                block = {"type": "text", "text": part.text}
            case Image() if (source := _source(part, "image/png")) is not None:
                if part.detail:
                    self._builder.record_loss("unsupported-field", place.field("detail"), part.detail)
                block = {"type": "image", "source": source}
            case Document():
                plain_text = {"type": "text", "media_type": "text/plain", "data": part.text}
                block = {"type": "document", "source": _source(part, "application/pdf") or plain_text}
                block |= {name: value for name in ("title", "context") if (value := getattr(part, name))}
                if part.citations:
                    block["citations"] = {"enabled": True}
            case Opaque() if part.dialect == DIALECT:
                return write_block(part)
            case _:
                kind = type(part).__name__.lower()
                self._builder.record_loss("unsupported-content", place, kind, "send it in another form")
                return None
        return {**block, **cache_control(part.cache), **extra_fields(part.extra)}

    def _write_result(self, result: ToolResult, location: Location) -> dict[str, Any]:
        content = result.content if isinstance(result.content, str) else self._write_parts(result.content, location)
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.tool_use_id}
        if content:
            block["content"] = content
        return block | {"is_error": result.is_error} | extra_fields(result.extra)

    def _write_block(self, block: Block, place: Location) -> _WireBlock | None:
        """Write a block of an assistant message; None, with a loss, if the dialect does not accept it."""
        match block:
            case Text():
                if not block.text:
                    return None
                if block.cache:
                    content = write_block(block)
                    assert isinstance(content, dict)
                    return content | cache_control(block.cache)
            case ToolUse():
                args: Raw | dict[str, str] | None = raw_object(block.args or "{}")
                if args is None:
                    detail = block.args_error or "wrapped for replay"
                    self._builder.record_loss("arguments-not-an-object", place, detail)
                    args = {"INVALID_JSON": block.args}
                call = {"type": "tool_use", "id": block.id, "name": block.name, "input": args}
                return call | extra_fields(block.extra) if block.extra else call
            case Reasoning():
                if not isinstance(block.meta, AnthropicMeta | AnthropicRedactedMeta):
                    self._builder.record_loss("unsigned-reasoning", place, "reasoning without a signature is left out")
                    return None
            case Refusal():
                return {"type": "text", "text": block.text} if block.text else None
            case Opaque() if block.dialect != DIALECT:
                self._builder.record_loss("unreadable-block", place, "a block of another dialect or a later version")
                return None
        try:
            return write_block(block)
        except KeyError:
            self._builder.record_loss("unsupported-content", place, f"{type(block).__name__} in an assistant message")
            return None


def _source(part: Image | Document, default: str) -> dict[str, Any] | None:
    """Write where the bytes of a part come from. `default` is the media type if the part names none."""
    if part.data:
        return {"type": "base64", "media_type": part.mime or default, "data": part.data}
    if url := split_data_url(part.url):
        return {"type": "base64", "media_type": url[0] or default, "data": url[1]}
    if part.url:
        return {"type": "url", "url": part.url}
    if part.file_id:
        return {"type": "file", "file_id": part.file_id}
    return None
