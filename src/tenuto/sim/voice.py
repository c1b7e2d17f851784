"""What a dialect is to the simulator: its functions, its table of checks, and where it differs from the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import msgspec

from tenuto.core.provider import Dialect
from tenuto.sim import listing
from tenuto.sim.asked import Asked, Request
from tenuto.sim.judging import Checks
from tenuto.sim.mint import Mint
from tenuto.sim.script import Fault, Turn

__all__ = ["Voice"]


class Voice(msgspec.Struct, frozen=True, kw_only=True):
    """A dialect.

    `open` reads the body as far as the rules need it, and raises `Malformed` for what has the wrong shape. `checks` are
    tried on what it returns. `read` says what is asked. `write` says a turn in the dialect: one body, or the frames of a
    stream if the request wants one, with faults where they are to happen. `count` answers a question for the number of
    tokens.
    """

    open: Callable[[Request], Any]
    checks: Checks
    read: Callable[[Any], Asked]
    write: Callable[[Asked, Turn, Mint], list[bytes | Fault]]
    count: Callable[[Asked], dict[str, Any]]
    stream_in_body: bool = True
    """A request asks for a stream with `stream` in its body; False: with its path."""
    array_without_sse: bool = False
    """A stream is one JSON array if the query does not have `alt=sse`."""
    listed_dialects: tuple[Dialect, ...] = get_args(Dialect)
    """The dialects whose models the list shows."""
    model_entry: Callable[[str], dict[str, Any]] = listing.openai_entry
    model_list: Callable[[list[dict[str, Any]]], dict[str, Any]] = listing.openai_list
    """Make the model list from its entries."""
