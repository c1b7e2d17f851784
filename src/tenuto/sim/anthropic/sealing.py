"""What the dialect's opaque tokens and ids say to whoever holds the seed: what they were given for, and where they stood."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from typing import Any

from tenuto.core import jsonio
from tenuto.sim.anthropic.opened import REASONING, Opened
from tenuto.sim.mint import BASE62, Mint, Seals, digest

__all__ = ["account", "chain", "claims_of", "id_kind", "prefix", "reasoning_claims", "sealed", "told", "tool_id"]

_START, _END = b"\x12", b"\x18\x01"
_HEAD, _TAIL = 14, 8
_KINDS = ("thought", "silent", "plain")
"""A call whose reply began with a thought; one of a model told to think that did not; any other."""


def sealed(mint: Mint, claims: dict[str, Any], size: int) -> str:
    """Return a token of about so many bytes, in the form in which the provider sends them."""
    token = mint.seal(claims, size)
    return base64.b64encode(_START + _length(len(token)) + token + _END).decode()


def claims_of(seals: Seals, token: Any, kind: str) -> dict[str, Any] | None:
    """Return what a token of one kind claims; None if it is not, to the last letter, one that was made here."""
    if not isinstance(token, str):
        return None
    try:
        data = base64.b64decode(token, validate=True)
    except (binascii.Error, ValueError):
        return None
    if base64.b64encode(data).decode() != token:  # the last letter of a token has bits to spare
        return None
    claims = seals.open(_inside(data))
    return claims if claims and claims.get("k") == kind else None


def _inside(data: bytes) -> bytes:
    for width in range(1, 5):
        count = len(data) - len(_START) - width - len(_END)
        inside = data[len(_START) + width : -len(_END)]
        if count >= 0 and data == _START + _length(count) + inside + _END:
            return inside
    return b""


def _length(count: int) -> bytes:
    """Write a length as the provider's own encoding does: seven bits a byte, the last one first."""
    written = bytearray()
    while count > 0x7F:
        written.append(count & 0x7F | 0x80)
        count >>= 7
    return bytes((*written, count))


def account(name: str) -> str:
    """Return what stands for an account in a token."""
    return digest(name)[:8]


def told(blocks: Iterable[dict[str, Any]]) -> str:
    """Return what stands for the blocks before one of reasoning: their types, ids and texts."""
    parts: list[str] = []
    for block in blocks:
        known = (block.get(name) for name in ("id", "tool_use_id", "text", "thinking", "data"))
        parts += [block["type"], *(part for part in known if isinstance(part, str))]
    return digest(*parts)


def reasoning_claims(before: Sequence[dict[str, Any]], text: str) -> dict[str, Any]:
    """Return what a block of reasoning is sealed with about itself: its text, its place and what stands before it."""
    return {
        "k": "thinking", "t": digest(text), "l": len(text), "n": len(before), "b": told(before),
        "h": sum(block["type"] in REASONING for block in before),
    }  # fmt: skip


def chain(opened: Opened) -> list[str]:
    """Return what stands for system, tools and all merged messages before each of them, and before the reply."""
    if "chain" not in opened.known:
        body = opened.body
        system = body.get("system") or []
        blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
        heads = [digest(*map(_bytes, blocks), b"/", *map(_bytes, opened.tools))]
        for message in opened.merged:
            heads.append(prefix(heads[-1], message.role, [block.raw for block in message.blocks]))
        opened.known["chain"] = heads
    found: list[str] = opened.known["chain"]
    return found


def prefix(head: str, role: str, blocks: Sequence[dict[str, Any]]) -> str:
    """Return what stands for all that a digest stands for and these blocks behind it."""
    return digest(head, role, *map(_bytes, blocks)) if blocks else head


def _bytes(block: dict[str, Any]) -> bytes:
    """Write a block as it is, without the marks of the cache, which bind nothing."""
    kept = {name: value for name, value in block.items() if name != "cache_control"}
    for name in ("content", "source"):
        if name in kept:
            kept[name] = _unmarked(kept[name])
    return jsonio.encode(kept)


def _unmarked(held: Any) -> Any:
    """Return the blocks that a block holds, in a result or a document, without their marks."""
    if isinstance(held, list):
        return [_unmarked(inner) for inner in held]
    return _bytes(held).decode() if isinstance(held, dict) else held


def tool_id(mint: Mint, kind: str) -> str:
    """Return the id of a call, which says what kind of reply it comes from."""
    head = mint.word(_HEAD)
    return f"toolu_01{head}{_tail(mint.seals, head, kind)}"


def id_kind(seals: Seals, id: str) -> str:
    """Return what kind of reply a call comes from; empty if it does not come from here."""
    head, tail = id[8 : 8 + _HEAD], id[8 + _HEAD :]
    if not id.startswith("toolu_01") or len(tail) != _TAIL:
        return ""
    return next((kind for kind in _KINDS if _tail(seals, head, kind) == tail), "")


def _tail(seals: Seals, head: str, kind: str) -> str:
    number = int(seals.mac(head, kind), 16)
    letters: list[str] = []
    for _ in range(_TAIL):
        number, at = divmod(number, 62)
        letters.append(BASE62[at])
    return "".join(letters)
