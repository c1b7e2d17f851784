"""The steps of a script for the simulator, as functions: `turn(think("hm"), call("weather", {"city": "Oslo"}))`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from tenuto.sim.script import (
    Call,
    Cite,
    Cut,
    Deny,
    Drip,
    Fail,
    Found,
    Pause,
    Picture,
    Refuse,
    RunCode,
    Say,
    Search,
    Stall,
    Stop,
    Think,
    turn,
)

__all__ = [
    "call",
    "cut",
    "deny",
    "drip",
    "fail",
    "pause",
    "picture",
    "refuse",
    "run_code",
    "say",
    "search",
    "stall",
    "stop",
    "think",
    "turn",
]


def think(text: str | list[str] = "", *, redacted: bool = False) -> Think:
    """Think. A list of texts is streamed in exactly these pieces; `redacted` hides it, as a provider may."""
    return Think(text, redacted)


def say(text: str | list[str], *, cites: Iterable[Cite | str] = ()) -> Say:
    """Say something. A list of texts is streamed in exactly these pieces; `cites` are its sources, or their addresses."""
    sources = (cites,) if isinstance(cites, str) else cites
    return Say(text, tuple(Cite(source) if isinstance(source, str) else source for source in sources))


def call(name: str, args: dict[str, Any] | str | None = None, *, id: str = "") -> Call:
    """Call a tool. A string goes out as it stands, whether it is JSON or not. Neighbouring calls are parallel."""
    return Call(name, {} if args is None else args, id)


def search(query: str, *found: Found | str) -> Search:
    """Search on the provider's side; `found` are the pages, or their addresses."""
    return Search(query, tuple(Found(page) if isinstance(page, str) else page for page in found))


def run_code(code: str, output: str = "", *, ok: bool = True) -> RunCode:
    """Run code on the provider's side, with what it prints."""
    return RunCode(code, output, ok)


def picture(data: str = "", *, media_type: str = "image/png") -> Picture:
    """Draw a picture, given as base64; a small one if none is given."""
    return Picture(data, media_type)


def refuse(text: str = "I can't help with that.", *, category: str = "") -> Refuse:
    """Decline."""
    return Refuse(text, category)


def pause() -> Pause:
    """Pause the turn, to be continued by sending it back."""
    return Pause()


def stop(reason: Literal["length", "stop_sequence", "filter"] = "length", *, sequence: str = "") -> Stop:
    """End the answer for another reason than being done."""
    return Stop(reason, sequence)


def deny(status: int = 429, *, retry_after: float | None = None, message: str = "", times: int = 1) -> Deny:
    """Answer with an HTTP error, for the first `times` that this very request is made (0: each time).

    A turn that only denies takes no place in the script: the next attempt gets the next turn.
    """
    return Deny(status, retry_after, message, times)


def fail(status: int = 529, *, message: str = "", times: int = 1) -> Fail:
    """Put an error into the stream, and end it; without streaming, answer with an HTTP error. `times` as in `deny`."""
    return Fail(status, message, times)


def cut(*, times: int = 1) -> Cut:
    """Break the line. `times` as in `deny`."""
    return Cut(times)


def stall(seconds: float | None = None, *, times: int = 0) -> Stall:
    """Send nothing for so long; without a number, for ever. `times` as in `deny`."""
    return Stall(seconds, times)


def drip(bytes: int = 1, seconds: float = 0.0) -> Drip:
    """From here on, send so many bytes at a time, with a pause between them."""
    return Drip(bytes, seconds)
