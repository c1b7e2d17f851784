"""Rules for sending back turns that were interrupted.

Anthropic refuses some blocks at the end of a turn, and calls without their result. The transcript keeps them; the request
omits them, each with a `Loss`.
"""

from __future__ import annotations

from typing import Any

from tenuto.core.loss import Location
from tenuto.wire.anthropic.protocol import SERVER_CALLS
from tenuto.wire.body_builder import BodyBuilder, TurnList


def drop_unfinished_blocks(turns: TurnList, builder: BodyBuilder) -> list[dict[str, Any]]:
    """Drop server calls without a result, thinking at the end of a turn, and turns with only blank text.

    User messages that become adjacent are merged.
    """
    messages = turns.messages
    result: list[dict[str, Any]] = []
    for message, place in zip(messages, turns.locations, strict=True):
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
        message["content"] = content
        result.append(message)
    return result


def _finish_turn(content: list[Any], place: Location, builder: BodyBuilder, *, is_last: bool) -> list[Any]:
    """Return the content of an assistant message that the provider accepts; empty if nothing is left."""
    # The last turn may be paused: the provider continues it. Code that calls client tools waits for their results,
    # which are in the next message.
    if not is_last:
        content = _drop_open_server_calls(content, place, builder)
    while content and block_type(content[-1]) == "thinking":
        location = builder.location_of(content[-1], place)
        builder.record_loss("reasoning-unfinished", location, "reasoning at the end of a turn is left out")
        content = content[:-1]
    if content and _is_blank(content):
        for block in content:
            location = builder.location_of(block, place)
            builder.record_loss("blank-turn", location, "a turn with only blank text is left out")
        return []
    if not is_last:
        return content
    while content and block_type(last := content[-1]) == "text" and last["text"] != (text := last["text"].rstrip()):
        location = builder.location_of(last, place)
        builder.record_loss("trimmed-prefill", location, "trailing space of a turn to continue is removed")
        trimmed = {**last, "text": text}
        builder.replace_node(last, trimmed)
        content = [*content[:-1], *([trimmed] if text else [])]
    return content


def _drop_open_server_calls(content: list[Any], place: Location, builder: BodyBuilder) -> list[Any]:
    if any(block_type(block) == "tool_use" for block in content):
        return content
    result_ids = [block.get("tool_use_id") for block in content if isinstance(block, dict)]
    blocks: list[Any] = []
    for block in content:
        if block_type(block) in SERVER_CALLS and block.get("id") not in result_ids:
            detail = f"{block.get('name')}: the provider sent no result"
            builder.record_loss("unfinished-call", builder.location_of(block, place), detail)
        else:
            blocks.append(block)
    return blocks


def disable_thinking_inside_tool_loop(messages: list[dict[str, Any]], builder: BodyBuilder) -> None:
    """Remove a thinking budget if the current run of tool calls did not begin with thinking.

    Such calls come from another provider, or were made with thinking disabled.
    """
    if builder.body["thinking"].get("type") != "enabled":
        return
    first: Any = ""
    for message in reversed(messages):
        types = [block_type(block) for block in message["content"]]
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
    return all(block_type(block) == "text" and not str(block["text"]).strip() for block in content)


def block_type(block: Any) -> Any:
    """Return the type of a block; any JSON value, if a caller made the block by hand."""
    return block.get("type", "") if isinstance(block, dict) else ""
