"""A recorded or rebuilt request: its entries in order, with the model's turns as wire blocks and exact calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from conformance.corpus import READERS
from conformance.jsontext import elements, load, plain, text_at
from conformance.leaves import CallLeaf, Leaf, turn_leaves
from conformance.reply_values import Call

__all__ = ["Entry", "Result", "entries"]


@dataclasses.dataclass
class Result:
    """A tool result with the id of its call or, without one, the name of the tool."""

    id: str | None
    name: str | None
    text: str


@dataclasses.dataclass
class Entry:
    """One entry of a request.

    `kind` is `model` (a wire block of a reply), `result` (a tool result), `reference` (the id of an item that the
    provider stored), `user` or `system`.
    """

    kind: str
    block: Any = None
    calls: list[Call] = dataclasses.field(default_factory=list)
    result: Result | None = None
    text: str = ""

    def leaves(self, dialect: str) -> list[Leaf | CallLeaf]:
        """Return the leaves of the model's block."""
        return turn_leaves(dialect, [self.block], self.calls)


def entries(dialect: str, body: bytes) -> list[Entry]:
    """Split a request into its entries, in order."""
    text = body.decode("utf-8-sig", "surrogatepass")
    return list(_TABLES[dialect](text))


def _model(dialect: str, spelt: str) -> Entry:
    return Entry("model", load(spelt), READERS[dialect].calls_in(spelt))


def _text_entries(value: Any, kind: str = "user") -> Entry:
    return Entry(kind, text=_text(value) or "(not text)")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_text(item) for item in value)
    return str(value.get("text") or "") if isinstance(value, dict) else ""


def _anthropic(text: str) -> Iterator[Entry]:
    for spelt in elements(text_at(text, "messages")):
        message = load(spelt)
        content = message.get("content")
        blocks = [content] if isinstance(content, str) else content or []
        exact = elements(text_at(spelt, "content"))
        for at, block in enumerate(blocks):
            if message["role"] == "assistant" and isinstance(block, str):
                yield Entry("model", {"type": "text", "text": block})
            elif message["role"] == "assistant":
                yield _model("anthropic-messages", exact[at])
            elif isinstance(block, dict) and block.get("type") == "tool_result":
                yield Entry("result", result=Result(block.get("tool_use_id"), None, _text(block.get("content"))))
            else:
                yield _text_entries(block, "system" if message["role"] == "system" else "user")


def _chat(text: str) -> Iterator[Entry]:
    for spelt in elements(text_at(text, "messages")):
        message = load(spelt)
        role = message.get("role")
        if role == "assistant":
            yield _model("openai-chat", spelt)
        elif role in ("tool", "function"):
            result = Result(message.get("tool_call_id"), message.get("name"), _text(message.get("content")))
            yield Entry("result", result=result)
        else:
            yield _text_entries(message.get("content"), "system" if role in ("system", "developer") else "user")


_INPUTS = ("function_call_output", "custom_tool_call_output", "apply_patch_call_output", "computer_call_output")
_OTHERS = ("additional_tools", "mcp_approval_response", "configuration_update", "compaction_trigger")


def _responses(text: str) -> Iterator[Entry]:
    items = load(text_at(text, "input") or '""')
    if isinstance(items, str):
        yield _text_entries(items)
        return
    for spelt in elements(text_at(text, "input")):
        item = load(spelt)
        kind = item.get("type") or "message"
        if kind in _INPUTS or (kind.endswith("_call_output") and kind != "shell_call_output"):
            yield Entry("result", result=Result(item.get("call_id"), None, _text(item.get("output"))))
        elif kind == "item_reference":
            yield Entry("reference", item)
        elif kind in _OTHERS:
            continue
        elif kind == "message" and item.get("role") != "assistant":
            entries_of_item = _text_entries(item.get("content"), "user" if item.get("role") == "user" else "system")
            yield dataclasses.replace(entries_of_item, block=item)
        else:
            yield _model("openai-responses", spelt)


def _gemini(text: str) -> Iterator[Entry]:
    for spelt in elements(text_at(text, "contents")):
        content = load(spelt)
        for part, exact in zip(content.get("parts") or [], elements(text_at(spelt, "parts")), strict=True):
            answer = part.get("functionResponse") or part.get("function_response")
            if content.get("role") == "model":
                yield _model("gemini", exact)
            elif isinstance(answer, dict):
                yield Entry(
                    "result", result=Result(answer.get("id"), answer.get("name"), str(plain(answer.get("response"))))
                )
            else:
                yield _text_entries(part.get("text"))


_TABLES = {
    "anthropic-messages": _anthropic,
    "openai-chat": _chat,
    "openai-responses": _responses,
    "gemini": _gemini,
}
