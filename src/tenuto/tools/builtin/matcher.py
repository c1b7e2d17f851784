"""A program that runs a regular expression on texts, so that one which never ends can be killed.

It is run as a file and imports nothing of ours. It reads JSON, one value a line: first the expression, the largest number
of lines to report and a time limit in seconds, then texts. It answers the first line with null or the fault of the
expression, and each text with the numbers of the lines that match, from 1. After the time limit it ends by itself, in
case the process that started it was killed (not on Windows, which has no alarm).
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
        signal.alarm(seconds)  # ends the process even while an expression runs
    try:
        tried = re.compile(expression)
    except (re.error, OverflowError, RecursionError) as exc:
        _answer(str(exc))
        return
    _answer(None)
    for line in sys.stdin.buffer:
        found: list[int] = []
        for number, text in enumerate(json.loads(line).split("\n"), 1):
            if len(found) < most and tried.search(text):
                found.append(number)
        _answer(found)


def _answer(value: object) -> None:
    sys.stdout.buffer.write(json.dumps(value).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
