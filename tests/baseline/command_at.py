"""Run the command at another time: `python command_at.py SECONDS ARGUMENTS...` moves its clock by SECONDS.

What the command prints depends on the date: prices change, models retire.
"""

from __future__ import annotations

import datetime as dt
import runpy
import sys
import time
from typing import Any


def move_clock(seconds: float) -> None:
    """Move the clock of this process, for all modules that are imported from now on."""
    real_time, real_time_ns = time.time, time.time_ns
    real_date, real_datetime = dt.date, dt.datetime

    class DateType(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, real_date)

    class DatetimeType(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, real_datetime)

    class MovedDate(real_date, metaclass=DateType):
        @classmethod
        def today(cls) -> Any:
            return real_datetime.fromtimestamp(time.time()).date()

    class MovedDatetime(real_datetime, metaclass=DatetimeType):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return real_datetime.fromtimestamp(time.time(), tz)

    time.time = lambda: real_time() + seconds
    time.time_ns = lambda: real_time_ns() + int(seconds * 1_000_000_000)
    dt.date = MovedDate  # type: ignore[misc]  # it stands for the real one
    dt.datetime = MovedDatetime  # type: ignore[misc]  # it stands for the real one


if __name__ == "__main__":
    move_clock(float(sys.argv[1]))
    sys.path[0] = ""  # as with `python -m tenuto`: the user's modules are found in the current directory
    sys.argv = ["tenuto", *sys.argv[2:]]
    runpy.run_module("tenuto", run_name="__main__")
