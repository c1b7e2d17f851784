"""The tool of the demo. Its first call for Bergen kills the process."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from tenuto import tool

WEATHER = {"Oslo": "4 degrees, clear", "Bergen": "9 degrees, rain", "Paris": "15 degrees, cloudy"}


@tool(effect="pure")  # may run again after a crash
def weather(city: str) -> str:
    """Current weather in a city."""
    marker = Path("killed")
    if city == "Bergen" and not marker.exists():
        marker.touch()
        time.sleep(0.3)  # the call for the other city has finished by then
        print("  *** kill -9, in the middle of a tool ***", file=sys.stderr, flush=True)
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    return WEATHER[city]
