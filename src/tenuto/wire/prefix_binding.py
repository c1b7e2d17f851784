"""Compute the digest of the messages that a thinking block is bound to.

Some models accept a thinking block only after the same system prompt, tools and messages as before. The split into
messages and cache marks do not count. The digest grows block by block, so a conversation is read once.

A digest has two parts: that of the system prompt and the tools, and that of everything so far. So the digest of
messages can be continued that a compaction has replaced. Version 3 of the journal has digests of one part.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tenuto.core import jsonio
from tenuto.core.blocks import AnthropicMeta, AnthropicRedactedMeta, Marker, Reasoning
from tenuto.core.messages import AssistantMessage, Message, summary_block
from tenuto.core.provider import Target
from tenuto.wire.token_scope import issuer_check

_LENGTH = 32
_CONTEXT_LENGTH = 16
_CACHE_MARKS = ("cache_control", "prompt_cache_breakpoint")


def prefix_of(body: bytes, target: Target, summary: Marker | None = None) -> str:
    """Return the digest that a reply to this request is bound to; empty where the model binds nothing.

    If the reply starts with a summary of the messages, it is bound to the summary instead of them.
    """
    if not target.traits.prefix_bound:
        return ""
    parsed = jsonio.parse(body)
    digests = _Digests(parsed)
    if summary is not None:
        fields = {"type": summary.kind, "content": summary.text}
        if isinstance(summary.meta, AnthropicMeta):
            fields["signature"] = summary.meta.signature
        digests.restart({**fields, **(jsonio.parse(summary.extra) if summary.extra else {})}, ())
    else:
        _read_all(digests, parsed, {})
    return digests.current[0]


def compacted_prefix(messages: Collection[Message], body: bytes, target: Target) -> str:
    """Return the digests of everything that a summary of these messages replaces, for the origin of its message.

    `body` is the request for the summary. Thinking after the messages may be bound to any of the digests.
    """
    if not target.traits.prefix_bound:
        return ""
    parsed = jsonio.parse(body)
    digests = _Digests(parsed)
    _read_all(digests, parsed, _replaced_digests(messages))
    return " ".join(digests.current)


def stale_thoughts(
    messages: tuple[Message, ...], body: bytes, target: Target, without: Collection[tuple[int, int]] = ()
) -> tuple[tuple[int, int], ...]:
    """Return the thinking blocks (message, block) whose preceding messages have changed.

    If a block is dropped, the later ones that were issued after it are dropped, too; those that were issued without it
    stay. `without` are blocks that the body does not have.
    """
    is_issuer = issuer_check(target)
    thoughts = [
        (at, place, message.origin.prefix, _token(block))
        for at, message in enumerate(messages)
        if isinstance(message, AssistantMessage) and message.origin is not None and message.origin.prefix
        if is_issuer(message.origin)
        for place, block in enumerate(message.blocks)
        if isinstance(block, Reasoning) and (at, place) not in without
    ]
    if not thoughts:
        return ()
    stale = _stale_messages(thoughts, jsonio.parse(body), _replaced_digests(messages))
    return tuple((at, place) for at, place, *_ in thoughts if stale.get(at))


class _Digests:
    """The digests of a conversation so far. After a summary there are several: of what it replaces, too."""

    def __init__(self, body: Any) -> None:
        start = jsonio.encode([_parts(body.get("system")), _plain(body.get("tools") or [])])
        self._context = hashlib.sha256(start).hexdigest()[:_CONTEXT_LENGTH]
        self._earlier_form = hashlib.sha256(start)
        self.current = [f"{self._context}.{'':0<{_LENGTH}}"]

    def add(self, role: Any, part: Any) -> None:
        data = jsonio.encode([role, part])
        self._earlier_form.update(data)
        self.current = [self._extend(digest, data) for digest in self.current]

    def restart(self, summary: Any, replaced: Collection[str]) -> None:
        """Continue after a summary, which replaces everything before it."""
        data = jsonio.encode({name: summary[name] for name in sorted(summary) if summary[name] is not None})
        start = self._extend(f"{self._context}.", data)
        self.current = [start, *(digest for digest in replaced if digest.startswith(f"{self._context}."))]

    def forms(self) -> list[str]:
        """Return the digests in all forms that the origin of a reply may have."""
        return [*self.current, self._earlier_form.hexdigest()[:_LENGTH]]

    def _extend(self, digest: str, data: bytes) -> str:
        return f"{self._context}.{hashlib.sha256(digest.encode() + data).hexdigest()[:_LENGTH]}"


def _read_all(digests: _Digests, body: Any, replaced: Mapping[str, tuple[str, ...]]) -> None:
    for role, part in _message_parts(body):
        if _is_summary(part):
            digests.restart(part, replaced.get(str(part.get("signature")), ()))
        else:
            digests.add(role, part)


def _is_summary(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "compaction" and bool(part.get("content"))


def _replaced_digests(messages: Collection[Message]) -> dict[str, tuple[str, ...]]:
    """Return by the signature of each summary the digests of the messages that it replaces."""
    replaced: dict[str, tuple[str, ...]] = {}
    for message in messages:
        block = summary_block(message)
        if block is not None and isinstance(block.meta, AnthropicMeta) and isinstance(message, AssistantMessage):
            replaced[block.meta.signature] = tuple(message.origin.prefix.split()) if message.origin else ()
    return replaced


def _stale_messages(
    thoughts: list[tuple[int, int, str, str]], body: Any, replaced: Mapping[str, tuple[str, ...]]
) -> dict[int, bool]:
    """Return for each message with thinking blocks in the body whether they are stale.

    The body is read once, as if it had no stale thinking blocks.
    """
    numbers: dict[str, deque[int]] = {}
    for number, (*_, token) in enumerate(thoughts):
        numbers.setdefault(token, deque()).append(number)
    digests = _Digests(body)
    seen = dict.fromkeys(digests.forms(), 0)  # the number of parts before each digest
    stale: dict[int, bool] = {}
    next_number = count = turn = 0
    for role, part in _message_parts(body):
        if _is_summary(part):
            digests.restart(part, replaced.get(str(part.get("signature")), ()))
            count += 1
            seen = dict.fromkeys(digests.current, count)
            continue
        if role != "assistant":
            turn = count + 1
        elif candidates := numbers.get(_token_of(part)) if isinstance(part, dict) else None:
            while candidates and candidates[0] < next_number:
                candidates.popleft()
            if candidates:
                at, place, prefix, _ = thoughts[candidates[0]]
                next_number = candidates[0] + 1
                if at not in stale:  # the start of its own reply may follow its prefix
                    stale[at] = seen.get(prefix, -1) < max(turn, count - place)
                if stale[at]:
                    continue
        count += 1
        digests.add(role, part)
        seen |= dict.fromkeys(digests.forms(), count)
    return stale


def _token(block: Reasoning) -> str:
    """Return the key of a thinking block: its token, or else its text."""
    if isinstance(block.meta, AnthropicRedactedMeta):
        return block.meta.data
    return (block.meta.signature if isinstance(block.meta, AnthropicMeta) else "") or block.text


def _token_of(part: dict[str, Any]) -> str:
    """Return the key of an encoded thinking block; empty for any other part."""
    if part.get("type") == "redacted_thinking":
        return str(part.get("data"))
    return str(part.get("signature") or part.get("thinking")) if part.get("type") == "thinking" else ""


def _message_parts(body: Any) -> Iterator[tuple[Any, Any]]:
    for message in body.get("messages") or []:
        for part in _parts(message.get("content")):
            yield message.get("role"), part


def _parts(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [_plain(part) for part in content] if isinstance(content, list) else []


def _plain(part: Any) -> Any:
    """Strip cache marks; leave tool input untouched."""
    if isinstance(part, list):
        return [_plain(inner) for inner in part]
    if not isinstance(part, dict):
        return part
    fields = {name: value for name, value in part.items() if name not in _CACHE_MARKS}
    if fields.get("type") == "tool_result" and "content" in fields:
        fields["content"] = _parts(fields["content"])
    return fields
