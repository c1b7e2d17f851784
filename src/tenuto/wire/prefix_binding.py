"""What a thought was bound to: a digest of everything that stood before it.

Some models take their thoughts back only behind the very words they were given after: system, tools and messages. How
the words were cut into messages does not count, nor do marks for the cache. The digest grows from block to block, so a
whole conversation is looked at once.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Iterator
from typing import Any

from tenuto.core import jsonio
from tenuto.core.blocks import AnthropicMeta, AnthropicRedactedMeta, Reasoning
from tenuto.core.messages import AssistantMessage, Message
from tenuto.core.provider import Target
from tenuto.wire.token_scope import IssuerCheck

__all__ = ["prefix_of", "stale_thoughts"]

_MARK = "cache_control"
_LENGTH = 32


def prefix_of(body: bytes, target: Target) -> str:
    """Return the digest that a reply to this request is bound to; empty where the model binds nothing."""
    if not target.traits.prefix_bound:
        return ""
    parsed = jsonio.parse(body)
    so_far = _before(parsed)
    for role, part in _said(parsed):
        so_far.update(jsonio.encode([role, part]))
    return so_far.hexdigest()[:_LENGTH]


def stale_thoughts(
    messages: tuple[Message, ...], body: bytes, target: Target, without: Collection[tuple[int, int]] = ()
) -> tuple[tuple[int, int], ...]:
    """Return the thoughts (message, block) that the target gave behind other words than those that now stand there.

    A thought that goes takes with it all that were given behind it; those that were given after it had gone stay. `without`
    are blocks that do not stand in the body.
    """
    issued = IssuerCheck(target)
    thoughts = [
        (at, place, message.origin.prefix, _token(block))
        for at, message in enumerate(messages)
        if isinstance(message, AssistantMessage) and message.origin is not None and message.origin.prefix
        if issued[message.origin]
        for place, block in enumerate(message.blocks)
        if isinstance(block, Reasoning) and (at, place) not in without
    ]
    if not thoughts:
        return ()
    fates = _PrefixScan(thoughts).through(jsonio.parse(body))
    return tuple((at, place) for at, place, *_ in thoughts if fates.get(at))


class _PrefixScan:
    """Looks at a body once, from its beginning to its end, as if every thought that is stale were not there."""

    def __init__(self, thoughts: list[tuple[int, int, str, str]]) -> None:
        self._thoughts = thoughts
        self._numbers: dict[str, deque[int]] = {}
        for number, (*_, token) in enumerate(thoughts):
            self._numbers.setdefault(token, deque()).append(number)
        self._next = 0
        self._seen: dict[str, int] = {}
        """How many parts stood before each digest."""
        self._stale: dict[int, bool] = {}

    def through(self, body: Any) -> dict[int, bool]:
        """Say of each message whose thoughts stand in the body whether they are stale."""
        so_far = _before(body)
        self._seen[so_far.hexdigest()[:_LENGTH]] = count = turn = 0
        for role, part in _said(body):
            if role != "assistant":
                turn = count + 1
            elif self._goes(part, count, turn):
                continue
            count += 1
            so_far.update(jsonio.encode([role, part]))
            self._seen[so_far.hexdigest()[:_LENGTH]] = count
        return self._stale

    def _goes(self, part: Any, count: int, turn: int) -> bool:
        """Tell whether a part is a thought that is stale. Behind its prefix there may be what its own reply began with."""
        numbers = self._numbers.get(_token_of(part)) if isinstance(part, dict) else None
        while numbers and numbers[0] < self._next:
            numbers.popleft()
        if not numbers:
            return False
        at, place, prefix, _ = self._thoughts[numbers[0]]
        self._next = numbers[0] + 1
        if at not in self._stale:
            self._stale[at] = self._seen.get(prefix, -1) < max(turn, count - place)
        return self._stale[at]


def _token(block: Reasoning) -> str:
    """What tells a thought from others: its token, or else its words."""
    if isinstance(block.meta, AnthropicRedactedMeta):
        return block.meta.data
    return (block.meta.signature if isinstance(block.meta, AnthropicMeta) else "") or block.text


def _token_of(part: dict[str, Any]) -> str:
    """The same of one that was written; empty for what is no thought."""
    if part.get("type") == "redacted_thinking":
        return str(part.get("data"))
    return str(part.get("signature") or part.get("thinking")) if part.get("type") == "thinking" else ""


def _before(body: Any) -> hashlib._Hash:
    """Begin the digest: with what stands before all messages."""
    return hashlib.sha256(jsonio.encode([_parts(body.get("system")), _plain(body.get("tools") or [])]))


def _said(body: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the parts of all messages, each with whose it is."""
    for message in body.get("messages") or []:
        for part in _parts(message.get("content")):
            yield message.get("role"), part


def _parts(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [_plain(part) for part in content] if isinstance(content, list) else []


def _plain(part: Any) -> Any:
    """Take the marks for the cache off; what a tool was called with is nobody's business."""
    if isinstance(part, list):
        return [_plain(inner) for inner in part]
    if not isinstance(part, dict):
        return part
    kept = {name: value for name, value in part.items() if name != _MARK}
    return (
        {**kept, "content": _parts(kept["content"])}
        if kept.get("type") == "tool_result" and "content" in kept
        else kept
    )
