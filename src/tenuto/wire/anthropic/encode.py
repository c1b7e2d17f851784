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
from tenuto.core.loss import Loss
from tenuto.core.messages import (
    AssistantMessage,
    Content,
    Message,
    SystemMessage,
    ToolResult,
    ToolResults,
    UserMessage,
)
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest, JsonSchema
from tenuto.wire.anthropic.blocks import write_block
from tenuto.wire.anthropic.options import cache_control, write_options
from tenuto.wire.anthropic.protocol import DIALECT
from tenuto.wire.anthropic.replay_rules import disable_thinking_inside_tool_loop, drop_unfinished_blocks
from tenuto.wire.body_builder import BodyBuilder, extra_fields, raw_object
from tenuto.wire.rawjson import object_or_empty
from tenuto.wire.urls import model_path

_WireBlock: TypeAlias = dict[str, Any] | Raw | str
"""A block in the body. A block that a caller made by hand may be any JSON value."""


def encode(request: ChatRequest, target: Target, losses: tuple[Loss, ...] = ()) -> WireRequest:
    """Write a request that is adapted to its target. The same request gives the same bytes."""
    builder = BodyBuilder(request, target, losses)
    body = builder.body
    body["model"] = target.model
    writer = _MessageWriter(builder)
    for index, message in enumerate(request.transcript):
        writer.add(message, f"messages[{index}]")
    writer.finish()
    system = writer.system(_format_instruction(request, target))
    write_options(builder)
    if system is not None:
        body["system"] = system
    body["messages"] = drop_unfinished_blocks(writer.messages, writer.places, builder)
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
    if wanted is None:
        return ""
    if wanted == "json_object":
        return "Respond with valid JSON only."
    if isinstance(wanted, JsonSchema) and target.traits.structured_output != "native":
        return f"Respond with JSON matching this schema: {jsonio.as_text(jsonio.encode(wanted.schema))}"
    return ""


class _MessageWriter:
    """Write the messages. Adjacent messages of one role share one message, in which tool results come first."""

    def __init__(self, builder: BodyBuilder) -> None:
        self._builder = builder
        self._system: list[SystemMessage] = []
        self.messages: list[dict[str, Any]] = []
        self.places: list[str] = []
        """The place of each message in the transcript: of the last one, if several share it."""
        self.last_extra = ""
        """The extra fields of the last assistant message."""
        self._empty_user_place = ""
        """The place of a user message without content, if the message before it is not from the user."""

    def add(self, message: Message, place: str) -> None:
        match message:
            case UserMessage():
                if message.name:
                    self._builder.record_loss("unsupported-field", f"{place}.name", message.name, "say it in the text")
                if not isinstance(message.content, str):
                    self._append("user", self._write_parts(message.content, place), place)
                else:
                    self._append("user", [{"type": "text", "text": message.content}] if message.content else [], place)
            case ToolResults():
                self._append("user", [self._write_result(result, place) for result in message.results], place)
            case AssistantMessage():
                self.last_extra = message.extra
                blocks = [self._write_block(block, f"{place}.blocks[{i}]") for i, block in enumerate(message.blocks)]
                blocks = [block for block in blocks if block is not None]
                if not blocks:
                    self._builder.leave_out_if_empty(message, place)
                self._append("assistant", blocks, place)
            case SystemMessage():
                self._add_system(message, place)

    def finish(self) -> None:
        """Complete the last turn, and move the tool results of each user message to its beginning."""
        self._write_placeholder()
        for message in self.messages:
            if message["role"] == "user":
                message["content"].sort(
                    key=lambda part: not (isinstance(part, dict) and part.get("type") == "tool_result")
                )

    def system(self, instruction: str) -> str | list[dict[str, Any]] | None:
        """Write the system prompt: a string, or blocks if a part has `cache_control` or extra fields."""
        parts: list[Text] = []
        for message in self._system:
            parts += [Text(message.content)] if isinstance(message.content, str) else message.content
        if instruction:
            parts.append(Text(instruction))
        if not parts:
            return None
        if any(part.cache or part.extra for part in parts):
            return [block for part in parts if (block := _write_part(part)) is not None] or None
        return "\n\n".join(part.text for part in parts if part.text) or None

    def _add_system(self, message: SystemMessage, place: str) -> None:
        if not self.messages:
            self._system.append(message)
        elif not str(message).strip():
            return  # the provider refuses blank text
        elif self._builder.target.traits.system_mid == "native" and self.messages[-1]["role"] == "user":
            self.messages.append({"role": "system", "content": str(message)})
            self.places.append(place)
        else:
            self._builder.record_loss("system-hoisted", place, "instructions in mid-conversation moved to the top")
            self._system.append(message)

    def _append(self, role: str, content: list[Any], place: str) -> None:
        if not content:
            if role == "user" and not (self.messages and self.messages[-1]["role"] == role):
                self._empty_user_place = place
            return
        if role == "assistant":
            self._write_placeholder()
        self._empty_user_place = ""
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += content
            self.places[-1] = place
        else:
            self.messages.append({"role": role, "content": content})
            self.places.append(place)

    def _write_placeholder(self) -> None:
        """Write a placeholder for an empty user turn, so that two assistant turns are not merged."""
        if self._empty_user_place:
            text = self._builder.placeholder(self._empty_user_place)
            self.messages.append({"role": "user", "content": [{"type": "text", "text": text}]})
            self.places.append(self._empty_user_place)
            self._empty_user_place = ""

    def _write_parts(self, parts: tuple[Content, ...], place: str) -> list[_WireBlock]:
        """Write the parts of a user message or of a tool result."""
        blocks: list[_WireBlock] = []
        for part in parts:
            is_own = isinstance(part, Opaque) and part.dialect == DIALECT
            block = write_block(part) if is_own else _write_part(part)
            if block is not None:
                blocks.append(block)
                if isinstance(part, Image) and part.detail:
                    self._builder.record_loss("unsupported-field", f"{place}.detail", part.detail)
            elif not isinstance(part, Text):  # an empty text is not a loss
                kind = type(part).__name__.lower()
                self._builder.record_loss("unsupported-content", place, kind, "send it in another form")
        return blocks

    def _write_result(self, result: ToolResult, place: str) -> dict[str, Any]:
        content = result.content if isinstance(result.content, str) else self._write_parts(result.content, place)
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.tool_use_id}
        if content:
            block["content"] = content
        block["is_error"] = result.is_error
        return block | extra_fields(result.extra) if result.extra else block

    def _write_block(self, block: Block, place: str) -> _WireBlock | None:
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
                args = raw_object(block.args) if block.args else Raw(b"{}")
                if args is None:
                    self._builder.record_loss(
                        "arguments-not-an-object", place, block.args_error or "wrapped for replay"
                    )
                    args = Raw(jsonio.encode({"INVALID_JSON": block.args}))
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


def _write_part(part: Content) -> dict[str, Any] | None:
    """Write a text, image or document; None if it is empty or of another type."""
    block: dict[str, Any]
    match part:
        case Text(text=text) if text:
            block = {"type": "text", "text": text}
        case Image() if (source := _source(part, "image/png")) is not None:
            block = {"type": "image", "source": source}
        case Document():
            plain_text = {"type": "text", "media_type": "text/plain", "data": part.text}
            block = {"type": "document", "source": _source(part, "application/pdf") or plain_text}
            block |= {name: value for name in ("title", "context") if (value := getattr(part, name))}
            if part.citations:
                block["citations"] = {"enabled": True}
        case _:
            return None
    return {**block, **cache_control(part.cache), **extra_fields(part.extra)}


def _source(part: Image | Document, default: str) -> dict[str, Any] | None:
    """Write where the bytes of a part come from. `default` is the media type if the part names none."""
    if part.data:
        return {"type": "base64", "media_type": part.mime or default, "data": part.data}
    if part.url.startswith("data:"):
        head, _, data = part.url.partition(",")
        return {"type": "base64", "media_type": head[5:].partition(";")[0] or default, "data": data}
    if part.url:
        return {"type": "url", "url": part.url}
    if part.file_id:
        return {"type": "file", "file_id": part.file_id}
    return None
