"""Turns that were cut off, made fit to be sent back: what Anthropic refuses as the end of one, or as half a pair.

The transcript keeps all of it; only the request goes without, and each time a `Loss` says so.
"""

from __future__ import annotations

from typing import Any

from tenuto.wire.anthropic.protocol import CALLS
from tenuto.wire.body_builder import BodyBuilder

__all__ = ["disable_thinking_inside_tool_loop", "drop_unfinished_blocks"]

_THOUGHTS = ("thinking", "redacted_thinking")


def drop_unfinished_blocks(
    messages: list[dict[str, Any]], places: list[str], draft: BodyBuilder
) -> list[dict[str, Any]]:
    """Return the messages without halves: provider-run calls that never got a result, thinking that nothing follows,
    turns of nothing but space. `places` say where in the transcript each stands. Neighbours that come to stand together share a message.
    """
    closed: list[dict[str, Any]] = []
    last = messages[-1] if messages else None
    for message, place in zip(messages, places, strict=True):
        role, content = message["role"], message["content"]
        if role == "assistant":
            content = _closed(content, place, draft, last=message is last)
            if not content:
                continue
        elif role == "user":
            if _is_blank(content):
                content = [{"type": "text", "text": draft.placeholder(place)}]
            if closed and closed[-1]["role"] == "user":
                content = [*closed.pop()["content"], *content]
        closed.append({"role": role, "content": content})
    return closed


def _closed(content: list[Any], place: str, draft: BodyBuilder, *, last: bool) -> list[Any]:
    kept = content
    # A last turn may be paused, and go on; code that calls our tools waits for their results in the next message.
    if not last and "tool_use" not in (kinds := [_kind(block) for block in content]):
        kept = _without_halves(content, kinds, place, draft)
    if kept and _kind(kept[-1]) == "thinking":
        draft.record_loss("reasoning-unfinished", place, "reasoning that nothing follows is left out")
        while kept and _kind(kept[-1]) == "thinking":
            kept = kept[:-1]
    if kept and _is_blank(kept):
        draft.record_loss("blank-turn", place, "a turn of nothing but space is left out")
        return []
    return _trimmed(kept, place, draft) if last else kept


def _trimmed(content: list[Any], place: str, draft: BodyBuilder) -> list[Any]:
    """Take the space off the end of a turn that is to be gone on with."""
    kept = content
    while kept and _kind(kept[-1]) == "text" and kept[-1]["text"] != (text := kept[-1]["text"].rstrip()):
        kept = [*kept[:-1], *([{**kept[-1], "text": text}] if text else [])]
    if kept is not content:
        draft.record_loss("trimmed-prefill", place, "a turn to go on with may not end in space")
    return kept


def _is_blank(content: list[Any]) -> bool:
    """Tell whether a turn is nothing but space, which is refused."""
    return not any(map(_says, content))


def _says(block: Any) -> bool:
    return _kind(block) != "text" or bool(str(block["text"]).strip())


def _without_halves(content: list[Any], kinds: list[str], place: str, draft: BodyBuilder) -> list[Any]:
    calls = [at for at, kind in enumerate(kinds) if kind in CALLS]
    if not calls:
        return content
    answered = [block.get("tool_use_id") for block in content if isinstance(block, dict)]
    halves = [at for at in calls if content[at].get("id") not in answered]
    for at in halves:
        name = content[at].get("name")
        draft.record_loss("unfinished-call", place, f"{name}: the provider never told its result")
    return [block for at, block in enumerate(content) if at not in halves]


def disable_thinking_inside_tool_loop(messages: list[dict[str, Any]], draft: BodyBuilder) -> None:
    """Turn a thinking budget off for a request in the middle of tool calls that did not begin with thinking: another
    provider's, or made without.
    """
    if draft.body.get("thinking", {}).get("type") != "enabled":
        return
    first: Any = ""
    for message in reversed(messages):
        kinds = [_kind(block) for block in message["content"]]
        if message["role"] == "assistant":
            if "tool_use" not in kinds:
                break
            first = kinds[0]
        elif "tool_result" not in kinds:
            break
    if first and isinstance(first, str) and first not in _THOUGHTS:
        del draft.body["thinking"]
        draft.record_loss(
            "thinking-off", "thinking", "the tool calls under way did not begin with thinking", "it can begin with the next question"
        )  # fmt: skip


def _kind(block: Any) -> Any:
    """Return a block's type; one that was made by hand may say anything there."""
    return block.get("type", "") if isinstance(block, dict) else ""
