"""A program that matches lines with a regular expression; `search.py` runs it as a subprocess and can kill it.

It imports only the standard library. It reads one JSON value per line: first the expression, the limit of line numbers
per text and the time limit in seconds; then texts. It answers the first line with null or the error in the expression,
and each text with the numbers of the matching lines. After the time limit it ends by itself (not on Windows, which has
no alarm).
"""

from __future__ import annotations

import json
import re
import signal
import sys


def main() -> None:
    expression, limit, seconds = json.loads(sys.stdin.buffer.readline())
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)  # ends the process even while an expression is matched
    try:
        pattern = re.compile(expression)
    except (re.error, OverflowError, RecursionError) as exc:
        _write(str(exc))
        return
    _write(None)
    for text in sys.stdin.buffer:
        numbers: list[int] = []
        for number, line in enumerate(json.loads(text).split("\n"), 1):
            if len(numbers) < limit and pattern.search(line):
                numbers.append(number)
        _write(numbers)


def _write(value: object) -> None:
    sys.stdout.buffer.write(json.dumps(value).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
