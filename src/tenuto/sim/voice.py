"""What a dialect is to the simulator: five functions and a table of checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

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
