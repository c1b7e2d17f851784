"""Rebuild a recorded request from our decoded replies."""

from __future__ import annotations

from typing import Any

from conformance.ancestors import Ancestor
from conformance.corpus import Exchange
from conformance.jsontext import load
from conformance.requests import Entry, Result
from conformance.subject import requested_model
from tenuto.core.blocks import Text, ToolUse
from tenuto.core.messages import AssistantMessage, Message, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.request import ChatRequest

__all__ = ["rebuilt"]


def rebuilt(
    exchange: Exchange, recorded: list[Entry], owners: list[int | None], ancestors: list[Ancestor]
) -> tuple[ChatRequest, str]:
    """Return our request and the path of the last ancestor's message in it.

    The messages are the recorded ones, but each turn from an ancestor is the reply as we decoded it.
    """
    messages: list[Message] = []
    placed: dict[int, int] = {}
    for entry, owner in zip(recorded, owners, strict=True):
        if owner is not None and owner not in placed:
            placed[owner] = len(messages)
            response = ancestors[owner].outcome.reply
            messages.append(response.message if response is not None else AssistantMessage(()))
        elif entry.kind == "model" and owner is None:
            _append_foreign(messages, entry)
        elif entry.result is not None:
            _append_result(messages, entry.result)
        elif entry.kind != "model":
            messages.append(SystemMessage(entry.text) if entry.kind == "system" else UserMessage(entry.text))
    request = ChatRequest(model=requested_model(exchange), messages=tuple(messages), store=_stored(exchange))
    return request, f"messages[{placed[max(placed)]}]"


def _stored(exchange: Exchange) -> bool | None:
    """Return whether the recorded request lets the provider store the reply; an id alone is then enough to send it
    back.
    """
    request = load(exchange.request or b"{}")
    return bool(request.get("store", True)) if exchange.dialect == "openai-responses" else None


def _append_foreign(messages: list[Message], entry: Entry) -> None:
    """Append a turn of no ancestor: its text and calls, without tokens."""
    blocks: list[Any] = [
        ToolUse(c.id or f"call_{len(messages)}_{at}", c.name or "", c.args or "{}") for at, c in enumerate(entry.calls)
    ]
    text = entry.block.get("text") or entry.block.get("content")
    if isinstance(text, str) and text:
        blocks.insert(0, Text(text))
    last = messages[-1] if messages else None
    if isinstance(last, AssistantMessage) and last.origin is None:
        messages[-1] = AssistantMessage((*last.blocks, *blocks))
    elif blocks:
        messages.append(AssistantMessage(tuple(blocks)))


def _append_result(messages: list[Message], result: Result) -> None:
    answered_ids = {r.tool_use_id for m in messages if isinstance(m, ToolResults) for r in m.results}
    calls = [c for m in messages if isinstance(m, AssistantMessage) for c in m.tool_calls() if c.id not in answered_ids]
    matching_calls = [c for c in calls if c.id == result.id] or [
        c for c in calls if result.name and c.name == result.name
    ]
    if not matching_calls:
        return
    answer = ToolResult(matching_calls[0].id, result.text)
    if isinstance(messages[-1], ToolResults):
        messages[-1] = ToolResults((*messages[-1].results, answer))
    else:
        messages.append(ToolResults((answer,)))
