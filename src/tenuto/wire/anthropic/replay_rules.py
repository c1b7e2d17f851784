"""Rules for sending back turns that were interrupted.

Anthropic refuses some blocks at the end of a turn, and calls without their result. The transcript keeps them; the request
omits them, each with a `Loss`.
"""

from __future__ import annotations

from typing import Any

from tenuto.wire.anthropic.protocol import SERVER_CALLS
from tenuto.wire.body_builder import BodyBuilder


def drop_unfinished_blocks(
    messages: list[dict[str, Any]], places: list[str], builder: BodyBuilder
) -> list[dict[str, Any]]:
    """Drop server calls without a result, thinking at the end of a turn, and turns with only blank text.

    User messages that become adjacent are merged. `places` has the place of each message in the transcript.
    """
    result: list[dict[str, Any]] = []
    for message, place in zip(messages, places, strict=True):
        role, content = message["role"], message["content"]
        if role == "assistant":
            content = _finish_turn(content, place, builder, is_last=message is messages[-1])
            if not content:
                continue
        elif role == "user":
            if _is_blank(content):
                content = [{"type": "text", "text": builder.placeholder(place)}]
            if result and result[-1]["role"] == "user":
                content = [*result.pop()["content"], *content]
        result.append({"role": role, "content": content})
    return result


def _finish_turn(content: list[Any], place: str, builder: BodyBuilder, *, is_last: bool) -> list[Any]:
    """Return the content of an assistant message that the provider accepts; empty if nothing is left."""
    # The last turn may be paused: the provider continues it. Code that calls client tools waits for their results,
    # which are in the next message.
    if not is_last:
        content = _drop_open_server_calls(content, place, builder)
    if content and _block_type(content[-1]) == "thinking":
        builder.record_loss("reasoning-unfinished", place, "reasoning at the end of a turn is left out")
        while content and _block_type(content[-1]) == "thinking":
            content = content[:-1]
    if content and _is_blank(content):
        builder.record_loss("blank-turn", place, "a turn with only blank text is left out")
        return []
    if not is_last:
        return content
    end = content
    while end and _block_type(end[-1]) == "text" and end[-1]["text"] != (text := end[-1]["text"].rstrip()):
        end = [*end[:-1], *([{**end[-1], "text": text}] if text else [])]
    if end is not content:
        builder.record_loss("trimmed-prefill", place, "trailing space of a turn to continue is removed")
    return end


def _drop_open_server_calls(content: list[Any], place: str, builder: BodyBuilder) -> list[Any]:
    types = [_block_type(block) for block in content]
    calls = [index for index, block_type in enumerate(types) if block_type in SERVER_CALLS]
    if not calls or "tool_use" in types:
        return content
    result_ids = [block.get("tool_use_id") for block in content if isinstance(block, dict)]
    open_calls = [index for index in calls if content[index].get("id") not in result_ids]
    for index in open_calls:
        builder.record_loss("unfinished-call", place, f"{content[index].get('name')}: the provider sent no result")
    return [block for index, block in enumerate(content) if index not in open_calls]


def disable_thinking_inside_tool_loop(messages: list[dict[str, Any]], builder: BodyBuilder) -> None:
    """Remove a thinking budget if the current run of tool calls did not begin with thinking.

    Such calls come from another provider, or were made with thinking disabled.
    """
    if builder.body["thinking"].get("type") != "enabled":
        return
    first: Any = ""
    for message in reversed(messages):
        types = [_block_type(block) for block in message["content"]]
        if message["role"] == "assistant":
            if "tool_use" not in types:
                break
            first = types[0]
        elif "tool_result" not in types:
            break
    if first and isinstance(first, str) and first not in ("thinking", "redacted_thinking"):
        del builder.body["thinking"]
        detail = "the current tool calls did not begin with thinking"
        builder.record_loss("thinking-off", "thinking", detail, "it can begin with the next user message")


def _is_blank(content: list[Any]) -> bool:
    return all(_block_type(block) == "text" and not str(block["text"]).strip() for block in content)


def _block_type(block: Any) -> Any:
    """Return the type of a block; any JSON value, if a caller made the block by hand."""
    return block.get("type", "") if isinstance(block, dict) else ""
