"""Read a Responses reply from its bytes, without the codec under test."""

from __future__ import annotations

from typing import Any

from conformance.jsontext import load
from conformance.reply_values import DONE, Answer, Call, Read, frames, merge

__all__ = ["FRAMING", "IMPLIED", "calls_in", "normal", "read"]

IMPLIED = {"object": ("response",)}
FRAMING = {
    "sequence_number": "the number of the frame",
    "obfuscation": "padding against traffic analysis",
}
"""Fields of frames that are not part of the reply."""

_TERMINAL = ("response.completed", "response.incomplete", "response.failed")


def normal(blocks: list[Any], *, streamed: bool) -> list[Any]:
    """Output items are compared unchanged."""
    return blocks


def read(data: bytes, *, streamed: bool) -> Read:
    """Return the content of the bytes."""
    return _stream(data) if streamed else _body(load(data))


def calls_in(spelt: str) -> list[Call]:
    """Return the call that an item's text holds, if it is one."""
    return _calls([load(spelt)])


def _body(body: Any) -> Read:
    found = Read()
    if not isinstance(body, dict) or ("output" not in body and body.get("error")):
        found.error = body.get("error") if isinstance(body, dict) else body
        return found
    _close(found, body, body.get("output") or [])
    return found


def _close(found: Read, body: dict[str, Any], items: list[Any]) -> None:
    fields = {name: value for name, value in body.items() if name not in ("output", "usage")}
    found.named(fields.pop("id", None), fields.pop("model", None))
    found.usage = body.get("usage")
    found.answers = [Answer(items, _calls(items), fields.pop("status", None), fields)]


def _calls(items: list[Any]) -> list[Call]:
    spelt = {"function_call": "arguments", "custom_tool_call": "input"}
    kinds = [(item, spelt[item["type"]]) for item in items if item.get("type") in spelt]
    return [Call(item.get("call_id"), item.get("name"), item.get(field)) for item, field in kinds]


def _stream(data: bytes) -> Read:
    """The finished item counts; an unfinished item is taken from the terminal event, otherwise from its start."""
    found = Read(ended=False)
    body: dict[str, Any] = {}
    begun: dict[int, Any] = {}
    done: dict[int, Any] = {}
    last: list[Any] = []
    pieces: dict[int, str] = {}
    for _, spelt in frames(data):
        if spelt.strip() == DONE:
            continue
        event = load(spelt)
        kind = event.get("type", "")
        if kind == "error":
            found.error = event.get("error") or {k: v for k, v in event.items() if k != "type"}
        elif kind == "response.output_item.added":
            begun[int(event["output_index"])] = event["item"]
        elif kind == "response.output_item.done":
            done[int(event["output_index"])] = event["item"]
        elif kind == "response.output_text.delta":
            index = int(event["output_index"])
            pieces[index] = pieces.get(index, "") + event["delta"]
        elif isinstance(event.get("response"), dict):
            merge(body, {name: value for name, value in event["response"].items() if name != "output"})
            if kind in _TERMINAL:
                found.ended = True
                last = event["response"].get("output") or []
                found.error = found.error or (event["response"].get("error") if kind == "response.failed" else None)
    _in_order(found, begun, done, last)
    found.torn = [text for index, text in pieces.items() if index in done and _text(done[index]) != text]
    _close(found, body, found.answers.pop().blocks)
    return found


def _text(item: dict[str, Any]) -> str:
    """Return the text of a message; the indexes of parts do not count, because some hosts number their deltas
    differently.
    """
    return "".join(part.get("text") or "" for part in item.get("content") or [] if part.get("type") == "output_text")


def _in_order(found: Read, begun: dict[int, Any], done: dict[int, Any], last: list[Any]) -> None:
    """Order the items by their index; the terminal event adds missing items and the other forms."""
    items: dict[int, Any] = {}
    other: dict[int, Any] = {}
    for index in sorted({**begun, **done}):
        item = done[index] if index in done else begun[index]
        other[index] = _counterpart(item, index, last)
        items[index] = item if index in done else other[index] or item
    matched = [id(item) for item in other.values() if item is not None]
    for index, item in enumerate(last):
        if id(item) not in matched:
            items[index if index not in items else max(items) + 1] = item
    listed = sorted(items.items())
    found.answers = [Answer([item for _, item in listed])]
    found.variants = {at: other[i] for at, (i, item) in enumerate(listed) if other.get(i) not in (None, item)}


def _counterpart(item: dict[str, Any], index: int, last: list[Any]) -> Any:
    same = [one for one in last if one.get("id") and one.get("id") == item.get("id")]
    if same:  # xAI uses one id for several items of a reply
        return last[index] if index < len(last) and any(one is last[index] for one in same) else same[0]
    near = last[index] if index < len(last) else None
    return near if near is not None and near.get("type") == item.get("type") else None
