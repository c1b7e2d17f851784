"""What is printed and nobody reads: no fault, and no reason for a message."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

__all__ = ["Unread", "left", "settled"]


class Unread(Exception):
    """Whoever read stdout has gone, as after `| head -1`. click would make an error of the system's own exception."""


def left() -> int:
    """Let nothing more be printed, not even at the very end; return the code that other programs end with."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


def settled() -> None:
    """Write what is left to be written. What cannot be goes nowhere: the interpreter would end with a code of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError, AttributeError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
