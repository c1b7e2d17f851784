"""A tool for the demo: the first time it is asked about Bergen, it kills the whole process."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from tenuto import tool


@tool(effect="pure")  # it may be asked again after a crash
def weather(city: str) -> str:
    """Current weather in a city."""
    once = Path("killed")
    if city == "Bergen" and not once.exists():
        once.touch()
        time.sleep(0.3)  # by then, the other city has its answer
        print("  *** kill -9, in the middle of a tool ***", file=sys.stderr, flush=True)
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    return f"12 degrees in {city}"
