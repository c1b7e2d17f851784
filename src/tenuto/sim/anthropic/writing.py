"""Saying a turn in the dialect: one message, or the events of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tenuto.core import jsonio
from tenuto.sim import envelopes
from tenuto.sim.anthropic import server_blocks
from tenuto.sim.anthropic.composing import Composer, Part
from tenuto.sim.anthropic.fates import dropped
from tenuto.sim.anthropic.opened import Opened
from tenuto.sim.anthropic.opening import AskedHere, open_request
from tenuto.sim.asked import Asked
from tenuto.sim.mint import Mint
from tenuto.sim.script import Cut, Drip, Fail, Fault, Stall, Turn

__all__ = ["write"]

_PING = b'event: ping\ndata: {"type": "ping"}\n\n'
_PADS = tuple(b"}" + b" " * width + b"}\n\n" for width in range(16))
"""A frame ends in a few spaces, so that its length says nothing about the text in it."""
_DELTAS = {"text": "text_delta", "thinking": "thinking_delta", "partial_json": "input_json_delta"}
_quote = msgspec.json.Encoder().encode


def write(asked: Asked, turn: Turn, mint: Mint) -> list[bytes | Fault]:
    """Say a turn: its frames if it is to be streamed, else one body. Faults stand where they happen."""
    opened = asked.opened if isinstance(asked, AskedHere) else open_request(asked.request)
    composer = Composer(asked, opened, mint)
    id = f"msg_01{mint.word(22)}"
    composer.compose(turn)
    message = _message(id, composer)
    if asked.request.stream:
        return list(_frames(message, composer))
    body = jsonio.encode(message)
    faults: list[bytes | Fault] = [part for part in composer.parts if isinstance(part, Stall | Drip)]
    if any(isinstance(part, Cut) for part in composer.parts):
        return [*faults, body[: len(body) // 2], Cut()]
    return [*faults, body]


def _message(id: str, composer: Composer) -> dict[str, Any]:
    opened = composer.opened
    message: dict[str, Any] = {
        "model": opened.request.named,
        "id": id,
        "type": "message",
        "role": "assistant",
        "content": composer.blocks,
        "stop_reason": composer.reason,
        "stop_sequence": composer.sequence,
        "stop_details": composer.details,
        "usage": _usage(composer),
    }
    told = dropped(opened)
    if told is not None:
        message["input_transformations"] = told
    if composer.ran:
        message["container"] = server_blocks.container(composer.mint, opened.body.get("container"))
    if "context_management" in opened.body:
        message["context_management"] = {"applied_edits": []}
    return message


def _usage(composer: Composer) -> dict[str, Any]:
    prompt, opened = composer.asked.prompt_tokens, composer.opened
    written, taken = _cached(opened, prompt, composer.asked.turn)
    long = [mark.get("ttl") == "1h" for _, mark in opened.marks()][-1:] == [True]
    said, limit = composer.spent + (3 if composer.blocks else 0), composer.asked.max_tokens
    usage: dict[str, Any] = {
        "input_tokens": prompt - written - taken,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": taken,
        "cache_creation": {
            "ephemeral_5m_input_tokens": 0 if long else written,
            "ephemeral_1h_input_tokens": written if long else 0,
        },
        "output_tokens": said if limit is None else min(said, limit),
        "output_tokens_details": {"thinking_tokens": composer.thought},
        "service_tier": "standard",
        "inference_geo": "global",
    }
    if composer.searches or composer.ran:
        usage["server_tool_use"] = {"web_search_requests": composer.searches, "web_fetch_requests": 0}
    return usage


def _cached(opened: Opened, prompt: int, turn: int) -> tuple[int, int]:
    """Return what the cache took in and what it gave: with a mark, all at first, later all but the newest."""
    if prompt < 1024 or not any(opened.marks()):
        return 0, 0
    taken = prompt * turn // (turn + 1)
    return prompt - 3 - taken, taken


def _frames(message: dict[str, Any], composer: Composer) -> Iterator[bytes | Fault]:
    yield _frame("message_start", {"message": _begun(message, composer.mint)})
    parts, mint, index = composer.parts, composer.mint, -1
    closing: list[bytes] = [] if any(isinstance(part, Part) for part in parts) else [_PING]
    for at, part in enumerate(parts):
        if isinstance(part, Cut):  # the line breaks inside a block, before it is signed and closed
            yield part
            return
        if isinstance(part, Fail):
            yield _error(composer, part)
            return
        if not _goes_on(parts[at:]):
            yield from closing
            closing = []
        if not isinstance(part, Part):
            yield part
        elif part.joined:
            yield from _deltas(index, part.delta, list(mint.pieces(part.text)), mint)
        else:
            index += 1
            yield from _begin(index, part, mint)
            closing = _end(index, part)
    yield from closing
    yield _frame("message_delta", _ended(message))
    yield _frame("message_stop", {})


def _goes_on(parts: list[Part | Fault | Fail]) -> bool:
    """Tell whether the block before goes on in the next one."""
    following = next((part for part in parts if isinstance(part, Part)), None)
    return following is not None and following.joined


def _begun(message: dict[str, Any], mint: Mint) -> dict[str, Any]:
    usage = {
        name: value
        for name, value in message["usage"].items()
        if name not in ("output_tokens_details", "server_tool_use")
    }
    usage["output_tokens"] = min(usage["output_tokens"], 1 + mint.random.randrange(8))
    empty: dict[str, Any] = {
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "usage": usage,
    }
    later = ("container", "context_management")
    return {name: empty.get(name, value) for name, value in message.items() if name not in later}


def _ended(message: dict[str, Any]) -> dict[str, Any]:
    once = ("cache_creation", "service_tier", "inference_geo")
    delta = {
        name: message[name] for name in ("stop_reason", "stop_sequence", "stop_details", "container") if name in message
    }
    usage = {name: value for name, value in message["usage"].items() if name not in once}
    edits = {name: message[name] for name in ("context_management",) if name in message}
    return {"delta": delta, "usage": usage, **edits}


def _begin(index: int, part: Part, mint: Mint) -> Iterator[bytes]:
    """Yield the frames of a block, up to the end of its text."""
    yield _frame("content_block_start", {"index": index, "content_block": part.start})
    if index == 0 or mint.random.random() < 0.05:
        yield _PING
    for delta in part.first:
        yield _frame("content_block_delta", {"index": index, "delta": delta})
    if part.delta == "partial_json":
        yield from _deltas(index, part.delta, [""], mint)
    yield from _deltas(index, part.delta, list(mint.pieces(part.text)), mint)


def _deltas(index: int, key: str, pieces: list[str], mint: Mint) -> list[bytes]:
    head = (
        f'event: content_block_delta\ndata: {{"type":"content_block_delta","index":{index},'
        f'"delta":{{"type":"{_DELTAS.get(key)}","{key}":'
    ).encode()
    return [
        head + text + pad for text, pad in zip(_quoted(pieces), mint.random.choices(_PADS, k=len(pieces)), strict=True)
    ]


def _quoted(pieces: list[str]) -> list[bytes]:
    try:
        return list(map(_quote, pieces))
    except UnicodeEncodeError:  # half a character
        return list(map(jsonio.encode, pieces))


def _end(index: int, part: Part) -> list[bytes]:
    last = [_frame("content_block_delta", {"index": index, "delta": part.last})] if part.last else []
    return [*last, _frame("content_block_stop", {"index": index})]


def _frame(type: str, fields: dict[str, Any]) -> bytes:
    return f"event: {type}\ndata: ".encode() + jsonio.encode({"type": type, **fields}) + b"\n\n"


def _error(composer: Composer, fail: Fail) -> bytes:
    request = composer.opened.request
    id = envelopes.request_id(request.style, request.digest)
    problem = envelopes.Problem(status=fail.status, message=fail.message, request_id=id)
    return _frame("error", envelopes.error_object(request.style, problem))
