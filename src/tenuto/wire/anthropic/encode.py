"""Anthropic Messages, to the wire: a request in, bytes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    Audio,
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
from tenuto.wire.anthropic import blocks as wire
from tenuto.wire.anthropic.options import cache_mark, write_options
from tenuto.wire.anthropic.replay_rules import disable_thinking_inside_tool_loop, drop_unfinished_blocks
from tenuto.wire.body_builder import BodyBuilder, extra_fields, raw_object
from tenuto.wire.urls import model_path

__all__ = ["encode", "verbatim"]

DIALECT = "anthropic-messages"
Wire = dict[str, Any]


def encode(request: ChatRequest, target: Target, losses: tuple[Loss, ...] = ()) -> WireRequest:
    """Write a request that is already adapted and fitted to its target. The same request gives the same bytes."""
    draft = BodyBuilder(request, target, losses)
    draft.body["model"] = target.model
    messages = _Messages(draft)
    for at, message in enumerate(request.transcript):
        messages.take(message, f"messages[{at}]")
    messages.finish()
    system = messages.system(_format_notes(draft))
    write_options(draft)
    if system is not None:
        draft.body["system"] = system
    draft.body["messages"] = drop_unfinished_blocks(messages.written, messages.places, draft)
    if "thinking" in draft.body:
        disable_thinking_inside_tool_loop(draft.body["messages"], draft)
    _container(draft, messages.beside)
    if version := target.provider.anthropic.raw_predict:
        del draft.body["model"]
        draft.body["anthropic_version"] = version
        verb = "streamRawPredict" if request.stream else "rawPredict"
        return draft.finish(f"{model_path(target.model)}:{verb}")
    if "anthropic-version" not in target.provider.headers:
        draft.headers["anthropic-version"] = "2023-06-01"
    return draft.finish("/messages")


def verbatim(message: AssistantMessage) -> list[Any]:
    """Write the content blocks of a received message as they were received."""
    return [wire.write_block(block) for block in message.blocks]


def _format_notes(draft: BodyBuilder) -> list[str]:
    """Ask in words for JSON where the model has no better way."""
    wanted = draft.request.response_format
    if wanted is None:
        return []
    if wanted == "json_object":
        return ["Respond with valid JSON only."]
    if isinstance(wanted, JsonSchema) and draft.target.traits.structured_output != "native":
        schema = jsonio.as_text(jsonio.encode(wanted.schema))
        return [f"Respond with JSON matching this schema: {schema}"]
    return []


def _container(draft: BodyBuilder, beside: str) -> None:
    """Name the container of the last turn, which stands `beside` its blocks, where provider-run tools go on in it."""
    if draft.request.container is not None:
        draft.body["container"] = draft.request.container
        return
    if not beside:
        return
    held = extra_fields(beside).get("container")
    goes_on = any("type" in tool or "allowed_callers" in tool for tool in draft.body.get("tools", ()))
    if held is not None and bytes(held)[:1] == b"{" and goes_on:
        draft.set_if_given(container=jsonio.text_of(jsonio.members(held).get("id")) or None)


class _Messages:
    """The messages as they are written: neighbours of one role share a message, results stand first in theirs."""

    def __init__(self, draft: BodyBuilder) -> None:
        self._draft = draft
        self._system: list[SystemMessage] = []
        self.written: list[Wire] = []
        self.places: list[str] = []
        """Where in the transcript each of them stands: the last of those that share one."""
        self.beside = ""
        """The fields beside the blocks of the assistant's last turn."""
        self._unsaid = ""
        """Where the user had a turn and nothing to say in it."""

    def take(self, message: Message, place: str) -> None:
        match message:
            case UserMessage():
                if message.name:
                    self._draft.record_loss("unsupported-field", f"{place}.name", message.name, "say it in the text")
                self._say("user", self._asked(message.content, place), place)
            case ToolResults():
                self._say("user", [self._result(result, place) for result in message.results], place)
            case AssistantMessage():
                self.beside = message.extra
                content = self._turn(message, place)
                if not content:
                    self._draft.leave_out_if_empty(message, place)
                self._say("assistant", content, place)
            case SystemMessage():
                self._instruct(message, place)

    def finish(self) -> None:
        """Write what the last turn still lacks, and put the results of each user message first."""
        self.speak_up()
        for message in self.written:
            if message["role"] == "user":
                message["content"].sort(key=lambda part: not _is_result(part))

    def speak_up(self) -> None:
        """Write a placeholder for an empty user turn, so that two assistant turns are not merged."""
        if self._unsaid:
            text = self._draft.placeholder(self._unsaid)
            self.written.append({"role": "user", "content": [{"type": "text", "text": text}]})
            self.places.append(self._unsaid)
            self._unsaid = ""

    def system(self, notes: list[str]) -> str | list[Wire] | None:
        """Write the instructions: a string, or blocks where a part of them is to be cached."""
        parts: list[Text] = []
        for message in self._system:
            parts += [Text(message.content)] if isinstance(message.content, str) else message.content
        parts += map(Text, notes)
        if not parts:
            return None
        if any(part.cache or part.extra for part in parts):
            said = (p for p in parts if p.text)
            return [
                {"type": "text", "text": p.text, **cache_mark(p.cache), **extra_fields(p.extra)} for p in said
            ] or None
        return "\n\n".join(part.text for part in parts if part.text) or None

    def _instruct(self, message: SystemMessage, place: str) -> None:
        if not self.written:
            self._system.append(message)
        elif not str(message).strip():
            return  # space is refused, and says nothing
        elif self._draft.target.traits.system_mid == "native" and self.written[-1]["role"] == "user":
            self.written.append({"role": "system", "content": str(message)})
            self.places.append(place)
        else:
            self._draft.record_loss("system-hoisted", place, "instructions in mid-conversation moved to the top")
            self._system.append(message)

    def _say(self, role: str, content: list[Any], place: str) -> None:
        if not content:
            if role == "user" and not (self.written and self.written[-1]["role"] == role):
                self._unsaid = place
            return
        if self._unsaid and role == "assistant":
            self.speak_up()
        self._unsaid = ""
        if self.written and self.written[-1]["role"] == role:
            self.written[-1]["content"] += content
            self.places[-1] = place
        else:
            self.written.append({"role": role, "content": content})
            self.places.append(place)

    # --- what is said to the model ------------------------------------------------------------------------------------

    def _asked(self, content: str | tuple[Content, ...], place: str) -> list[Any]:
        if isinstance(content, str):
            return [{"type": "text", "text": content}] if content else []
        return [part for p in content if (part := self._part(p, place)) is not None]

    def _part(self, part: Content, place: str) -> Wire | Raw | str | None:
        written: Wire | Raw | str | None = None
        if isinstance(part, Opaque):
            written = wire.write_block(part) if part.dialect == DIALECT else None
        elif (write := _PARTS.get(type(part))) is not None:
            written = write(part)
        if written is None and not isinstance(part, Text):  # an empty text says nothing
            kind = type(part).__name__.lower()
            self._draft.record_loss("unsupported-content", place, kind, "send it in another form")
        elif isinstance(part, Image) and part.detail:
            self._draft.record_loss("unsupported-field", f"{place}.detail", part.detail)
        return written

    def _result(self, result: ToolResult, place: str) -> Wire:
        content: str | list[Any]
        if isinstance(result.content, str):
            content = result.content
        else:
            content = [part for p in result.content if (part := self._part(p, place)) is not None]
        written: Wire = {"type": "tool_result", "tool_use_id": result.tool_use_id}
        if content:
            written["content"] = content
        return {**written, "is_error": result.is_error, **extra_fields(result.extra)}

    # --- what the model said ------------------------------------------------------------------------------------------

    def _turn(self, message: AssistantMessage, place: str) -> list[Any]:
        return [
            written
            for at, block in enumerate(message.blocks)
            if (written := self._block(block, f"{place}.blocks[{at}]")) is not None
        ]

    def _block(self, block: Block, place: str) -> Wire | Raw | str | None:
        match block:
            case Text():
                return self._text(block)
            case Reasoning():
                return self._reasoning(block, place)
            case ToolUse():
                return self._call(block, place)
            case Refusal(text=text):
                return {"type": "text", "text": text} if text else None
            case Opaque() if block.dialect != DIALECT:
                self._draft.record_loss("unreadable-block", place, "a block of another dialect or a later version")
                return None
        try:
            return wire.write_block(block)
        except KeyError:
            self._draft.record_loss("unsupported-content", place, f"{type(block).__name__} in an assistant's turn")
            return None

    def _text(self, block: Text) -> Wire | Raw | str | None:
        if not block.text:
            return None
        written = wire.write_block(block)
        return {**_written(written), **cache_mark(block.cache)} if block.cache else written

    def _reasoning(self, block: Reasoning, place: str) -> Wire | Raw | str | None:
        if isinstance(block.meta, AnthropicMeta | AnthropicRedactedMeta):
            return wire.write_block(block)
        self._draft.record_loss("unsigned-reasoning", place, "reasoning without a signature is left out")
        return None

    def _call(self, block: ToolUse, place: str) -> Wire:
        found = raw_object(block.args) if block.args else Raw(b"{}")
        if found is None:
            self._draft.record_loss("arguments-not-an-object", place, block.args_error or "wrapped for replay")
            found = Raw(jsonio.encode({"INVALID_JSON": block.args}))
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": found, **extra_fields(block.extra)}


def _written(block: Wire | Raw | str) -> Wire:
    assert isinstance(block, dict)
    return block


def _is_result(content: Any) -> bool:
    return isinstance(content, dict) and content.get("type") == "tool_result"


def _source(part: Image | Document, default: str) -> Wire | None:
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


def _write_text(part: Text) -> Wire | None:
    return (
        {"type": "text", "text": part.text, **cache_mark(part.cache), **extra_fields(part.extra)} if part.text else None
    )


def _write_image(part: Image) -> Wire | None:
    source = _source(part, "image/png")
    return {"type": "image", "source": source, **cache_mark(part.cache), **extra_fields(part.extra)} if source else None


def _write_document(part: Document) -> Wire | None:
    source = _source(part, "application/pdf")
    if source is None:
        source = {"type": "text", "media_type": "text/plain", "data": part.text}  # the dialect has no other kind
    written: Wire = {"type": "document", "source": source}
    written |= {name: value for name in ("title", "context") if (value := getattr(part, name))}
    if part.citations:
        written["citations"] = {"enabled": True}
    return {**written, **cache_mark(part.cache), **extra_fields(part.extra)}


_PARTS: dict[type[Block], Callable[[Any], Wire | None]] = {
    Text: _write_text,
    Image: _write_image,
    Document: _write_document,
}
assert Audio not in _PARTS  # the dialect takes no sound: a `Loss` says so
