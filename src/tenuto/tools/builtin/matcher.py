"""A program of its own that tries a regular expression on texts, so that one which never ends can be ended.

It is run as a file and imports nothing of ours. It reads JSON, one value a line: first the expression and its limits, then
texts. For each text it writes the numbers of the lines that match, from 1, at most as many as the first line says. The
first line also says after how many seconds it ends by itself: whoever started it may have been killed, and nobody else
would end it. (Windows has no such alarm.)
"""

from __future__ import annotations

import json
import re
import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Answer line by line until there is nothing left to read."""
    expression, most, seconds = json.loads(sys.stdin.buffer.readline())
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)  # ends the process even while an expression is being tried
    tried = re.compile(expression)
    for line in sys.stdin.buffer:
        found: list[int] = []
        for number, text in enumerate(json.loads(line).split("\n"), 1):
            if len(found) < most and tried.search(text):
                found.append(number)
        sys.stdout.buffer.write(json.dumps(found).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
