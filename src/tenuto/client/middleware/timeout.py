"""A deadline for a whole call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from tenuto.client.middleware.base import ALL_OPERATIONS, AnyNext, AnyRequest, closing, handles, split_model
from tenuto.errors import TimedOut


@handles(*ALL_OPERATIONS)
class Timeout(msgspec.Struct, frozen=True):
    """Wait at most `seconds` for a complete reply, then raise `TimedOut`.

    Only the time that the caller waits for events counts, not the time between two events that the caller uses.
    """

    seconds: float

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ValueError(f"timeout takes a number of seconds above 0, not {self.seconds}")

    async def __call__(self, request: AnyRequest, next: AnyNext) -> AsyncIterator[Any]:
        clock = asyncio.get_running_loop().time
        remaining = self.seconds
        async with closing(next(request)) as events:
            while True:
                start = clock()
                try:
                    async with asyncio.timeout(remaining) as limit:
                        event = await anext(events, None)
                except TimeoutError as exc:
                    if not limit.expired():
                        raise
                    message = f"no complete reply within {self.seconds:g} s"
                    error = TimedOut(message)
                    error.provider, error.model = split_model(request.model)
                    raise error from exc
                remaining -= clock() - start
                if event is None:
                    return
                yield event


timeout = Timeout
"""The name for use in a list of middleware: `timeout(120)`."""
