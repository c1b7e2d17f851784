"""Read an Anthropic Messages reply from its bytes, without the codec under test."""

from __future__ import annotations

from typing import Any

from conformance.jsontext import elements, load, members, text_at
from conformance.reply_values import DONE, Answer, Call, Read, frames, merge

__all__ = ["FRAMING", "IMPLIED", "calls_in", "normal", "read"]

IMPLIED = {"type": ("message",), "role": ("assistant",)}
FRAMING: dict[str, str] = {}

_CALLS = ("tool_use",)


def normal(blocks: list[Any], *, streamed: bool) -> list[Any]:
    """Content blocks are compared unchanged."""
    return blocks


def read(data: bytes, *, streamed: bool) -> Read:
    """Return the content of the bytes."""
    return _stream(data) if streamed else _body(data.decode("utf-8-sig", "surrogatepass"))


def calls_in(spelt: str) -> list[Call]:
    """Return the call that a content block's text holds, if it is one."""
    fields = members(spelt)
    if load(fields.get("type", '""')) not in _CALLS:
        return []
    return [Call(load(fields.get("id", "null")), load(fields.get("name", "null")), fields.get("input"))]


def _body(text: str) -> Read:
    message = load(text)
    found = Read()
    if not isinstance(message, dict) or message.get("type") == "error":
        found.error = message.get("error") if isinstance(message, dict) else message
        return found
    answer = Answer()
    for block, spelt in zip(message.get("content") or [], elements(text_at(text, "content")), strict=True):
        answer.blocks.append(block)
        answer.calls += calls_in(spelt)
        _served(found, block)
    _close(found, answer, message, message.get("usage"))
    return found


def _served(found: Read, block: dict[str, Any]) -> None:
    if block.get("type") == "fallback" and isinstance(block.get("to"), dict):
        found.models.append(block["to"].get("model"))


def _close(found: Read, answer: Answer, message: dict[str, Any], usage: Any) -> None:
    fields = {name: value for name, value in message.items() if name not in ("content", "usage")}
    found.named(fields.pop("id", None), None)
    if model := fields.pop("model", None):
        found.models.insert(0, model)
    answer.stop = fields.pop("stop_reason", None)
    answer.fields = fields
    found.answers = [answer]
    found.usage = usage


class _Stream:
    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.message: dict[str, Any] = {}
        self.usage: Any = None
        self.blocks: dict[str, dict[str, Any]] = {}
        self.inputs: dict[str, list[str]] = {}
        self.begun: dict[str, str] = {}
        self.error: Any = None
        self.ended = False

    def message_start(self, event: dict[str, Any], spelt: str) -> None:
        self._clear()  # a second start discards everything before it
        self.message = dict(event["message"])
        self.usage = self.message.get("usage")
        texts = elements(text_at(spelt, "message", "content"))
        for at, block in enumerate(self.message.get("content") or []):
            self._open(str(at), block, texts[at])

    def content_block_start(self, event: dict[str, Any], spelt: str) -> None:
        self._open(str(event["index"]), event["content_block"], text_at(spelt, "content_block"))

    def _open(self, key: str, block: dict[str, Any], spelt: str) -> None:
        self.blocks[key] = dict(block)
        self.inputs[key] = []
        self.begun[key] = members(spelt).get("input", "")

    def content_block_delta(self, event: dict[str, Any], _: str) -> None:
        key, delta = str(event["index"]), event["delta"]
        block, kind = self.blocks[key], delta.get("type")
        if kind == "text_delta":
            block["text"] = block.get("text", "") + delta["text"]
        elif kind == "thinking_delta":
            block["thinking"] = block.get("thinking", "") + delta["thinking"]
        elif kind == "signature_delta":
            block["signature"] = delta["signature"]
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        elif kind == "input_json_delta":
            self.inputs[key].append(delta["partial_json"])
        elif kind == "compaction_delta":
            block.update((name, value) for name, value in delta.items() if name != "type")

    def message_delta(self, event: dict[str, Any], _: str) -> None:
        merge(self.message, event.get("delta") or {})
        other_fields = {name: value for name, value in event.items() if name not in ("type", "delta", "usage")}
        merge(self.message, other_fields)
        if isinstance(event.get("usage"), dict):
            self.usage = {**(self.usage or {}), **event["usage"]}

    def message_stop(self, _: dict[str, Any], __: str) -> None:
        self.ended = True

    def failed(self, event: dict[str, Any], _: str) -> None:
        self.error = event.get("error")

    def finish(self) -> Read:
        found, answer = Read(error=self.error, ended=self.ended), Answer()
        for key, block in self.blocks.items():
            args = "".join(self.inputs[key]) or self.begun[key]
            if self.inputs[key] or "input" in block:
                block["input"] = _value(args)
            if block.get("type") in _CALLS:
                answer.calls.append(Call(block.get("id"), block.get("name"), args or None))
            _served(found, block)
            answer.blocks.append(block)
        _close(found, answer, self.message, self.usage)
        return found


def _value(args: str) -> Any:
    try:
        return load(args)
    except ValueError:
        return args


def _stream(data: bytes) -> Read:
    state = _Stream()
    known = {
        "message_start": state.message_start,
        "content_block_start": state.content_block_start,
        "content_block_delta": state.content_block_delta,
        "message_delta": state.message_delta,
        "message_stop": state.message_stop,
        "error": state.failed,
    }
    for _, spelt in frames(data):
        if spelt.strip() == DONE:
            continue
        event = load(spelt)
        act = known.get(event.get("type"))
        if act is not None:
            act(event, spelt)
    return state.finish()
