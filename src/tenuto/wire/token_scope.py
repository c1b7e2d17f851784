"""Check the scope of a token.

It is sent only to its issuer, on the same platform, for the same account and model family. Some models also accept a
thinking block only after the same system prompt, tools and messages as before (`prefix_of`).
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from tenuto.core import jsonio
from tenuto.core.blocks import AnthropicMeta, AnthropicRedactedMeta, Reasoning
from tenuto.core.messages import AssistantMessage, Message, Origin
from tenuto.core.provider import Target

# Compiled when two names of models differ
_DATED = r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|\d{3,4}|latest|preview(?:-\d{2}-\d{2,4})?)$"


def issuer_check(target: Target) -> Callable[[Origin], bool]:
    """Return `issued_by` for one target. Cached: the turns of a conversation share their origin."""
    return functools.cache(lambda origin: issued_by(origin, target))


def issued_by(origin: Origin, target: Target) -> bool:
    """Return whether the target accepts tokens of an origin: provider, platform, account, model family and dialect.

    An unknown (empty) field matches anything.
    """
    if not same_issuer(origin, target):
        return False
    if not origin.model or not target.model or _undated(origin.model) == _undated(target.model):
        return True
    pattern = target.traits.pattern
    return bool(pattern) and re.fullmatch(pattern, origin.model.rpartition("/")[2]) is not None


def same_issuer(origin: Origin, target: Target) -> bool:
    """Return whether all but the model matches."""
    if origin.provider != target.provider.name or origin.dialect != target.dialect:
        return False
    # A simulator counts as the provider that it imitates.
    simulated = target.model.partition("/")[0] if target.provider.plays else ""
    issuer = (origin.account, origin.platform, origin.model.partition("/")[0])
    receiver = (target.account, target.platform, simulated)
    return not any(one and other and one != other for one, other in zip(issuer, receiver, strict=True))


def _undated(model: str) -> str:
    return re.sub(_DATED, "", model.removeprefix("models/"))


def foreign_replies(replies: Sequence[AssistantMessage], target: Target) -> tuple[bool, ...]:
    """Return for each reply whether another issuer gave it: another provider, dialect, host or account."""
    is_foreign = functools.cache(lambda origin: not same_issuer(origin, target))
    return tuple(reply.origin is not None and is_foreign(reply.origin) for reply in replies)


# --- reasoning that is bound to the messages before it ----------------------------------------------------------------


_LENGTH = 32


def prefix_of(body: bytes, target: Target) -> str:
    """Return the digest that a reply to this request is bound to; empty where the model binds nothing.

    The split into messages and `cache_control` do not count. The digest grows block by block, so a conversation is read
    once.
    """
    if not target.traits.prefix_bound:
        return ""
    parsed = jsonio.parse(body)
    so_far = _before(parsed)
    for role, part in _message_parts(parsed):
        so_far.update(jsonio.encode([role, part]))
    return so_far.hexdigest()[:_LENGTH]


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
    stale = _stale_messages(thoughts, jsonio.parse(body))
    return tuple((at, place) for at, place, *_ in thoughts if stale.get(at))


def _stale_messages(thoughts: list[tuple[int, int, str, str]], body: Any) -> dict[int, bool]:
    """Return for each message with thinking blocks in the body whether they are stale.

    The body is read once, as if it had no stale thinking blocks.
    """
    numbers: dict[str, deque[int]] = {}
    for number, (*_, token) in enumerate(thoughts):
        numbers.setdefault(token, deque()).append(number)
    so_far = _before(body)
    seen = {so_far.hexdigest()[:_LENGTH]: 0}  # the number of parts before each digest
    stale: dict[int, bool] = {}
    next_number = count = turn = 0
    for role, part in _message_parts(body):
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
        so_far.update(jsonio.encode([role, part]))
        seen[so_far.hexdigest()[:_LENGTH]] = count
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


def _before(body: Any) -> hashlib._Hash:
    """Begin the digest with the system prompt and the tools."""
    return hashlib.sha256(jsonio.encode([_parts(body.get("system")), _plain(body.get("tools") or [])]))


def _message_parts(body: Any) -> Iterator[tuple[Any, Any]]:
    for message in body.get("messages") or []:
        for part in _parts(message.get("content")):
            yield message.get("role"), part


def _parts(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [_plain(part) for part in content] if isinstance(content, list) else []


def _plain(part: Any) -> Any:
    """Strip `cache_control`; leave tool input untouched."""
    if isinstance(part, list):
        return [_plain(inner) for inner in part]
    if not isinstance(part, dict):
        return part
    fields = {name: value for name, value in part.items() if name != "cache_control"}
    if fields.get("type") == "tool_result" and "content" in fields:
        fields["content"] = _parts(fields["content"])
    return fields
