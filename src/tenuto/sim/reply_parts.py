"""Parts that the writers of all dialects share: cut texts, faults around a body, the default summary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from tenuto.core import jsonio
from tenuto.sim.dialects import TurnRequest
from tenuto.sim.script import Compact, Disconnect, Fault

_SHOWN = 80
_P = TypeVar("_P")
_encode = msgspec.json.Encoder().encode


def encode_piece(value: Any) -> bytes:
    """Write JSON without the checks of `jsonio.encode`: a stream has a thousand pieces."""
    try:
        return _encode(value)
    except UnicodeEncodeError:  # half of a surrogate pair
        return jsonio.encode(value)


def cut_pieces(pieces: Iterable[_P], size: int) -> list[_P]:
    """Return the pieces of a text up to a number of characters; faults between them stay."""
    kept: list[Any] = []
    for piece in pieces:
        if not isinstance(piece, str):
            kept.append(piece)
            continue
        if size > 0:
            kept.append(piece[:size])
        size -= len(piece)
    return kept


def cut_text(text: str | list[str], size: int) -> str | list[str]:
    """Return the first characters of a text, in its pieces."""
    return text[:size] if isinstance(text, str) else cut_pieces(text, size)


def find_stop(before: str, text: str, stops: Iterable[str], start: int = 0) -> int | None:
    """Return the offset in both texts, from `start` on, of a stop sequence that ends in the second; None if none does."""
    whole = before + text
    offsets = [whole.find(stop, max(start, len(before) - len(stop) + 1)) for stop in stops if stop]
    return min((offset for offset in offsets if offset >= 0), default=None)


def add_faults(body: bytes, steps: Iterable[object]) -> list[bytes | Fault]:
    """Return a body after the delays among the steps; only half of it if one of them is a disconnect."""
    faults: list[bytes | Fault] = [step for step in steps if isinstance(step, Fault)]
    delays = [fault for fault in faults if not isinstance(fault, Disconnect)]
    cut = [fault for fault in faults if isinstance(fault, Disconnect)][:1]
    return [*delays, body[: len(body) // 2], *cut] if cut else [*delays, body]


def summary_of(step: Compact, request: TurnRequest) -> str:
    """Return the text of the step, or a list of what the user wrote."""
    if step.text:
        return step.text
    start = request.summary or "The user wrote:"
    messages = (" ".join(message.text.split())[:_SHOWN] for message in request.messages if message.role == "user")
    lines = dict.fromkeys(f"- {text}" for text in messages if text and text not in start)
    return "\n".join([start, *lines])
