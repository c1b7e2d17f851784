"""One log entry per call."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal

import msgspec

from tenuto.client.middleware.base import (
    ALL_OPERATIONS,
    AnyNext,
    AnyRequest,
    Middleware,
    Operation,
    OperationCall,
    OperationDone,
    closing,
    handles,
    split_model,
)
from tenuto.core import jsonio
from tenuto.core.events import MessageDone
from tenuto.core.messages import Usage

_log = logging.getLogger("tenuto")


class LogEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call: a chat, or one HTTP request of another operation."""

    provider: str
    """Empty if the model name has no provider."""
    model: str
    """Empty for `models`."""
    latency_ms: float
    status: Literal["ok", "error"]
    usage: Usage | None = None
    error: str | None = None
    operation: Operation = "chat"


def logger(
    log: Callable[[LogEntry], object] | None = None, *, clock: Callable[[], float] = time.perf_counter
) -> Middleware:
    """Pass `log` an entry for each call; without `log`, write a line of JSON to the logger `tenuto` at INFO.

    Errors are raised again. A call that its caller leaves before the end is an error, too: "closed by the reader" or
    "cancelled".
    """
    write = log or (lambda entry: _log.info("%s", jsonio.as_text(jsonio.encode(entry))))

    @handles(*ALL_OPERATIONS)
    async def log_call(request: AnyRequest, next: AnyNext) -> AsyncIterator[Any]:
        operation = request.operation if isinstance(request, OperationCall) else "chat"
        start = clock()
        is_logged = False

        def write_entry(usage: Usage | None = None, error: str | None = None) -> None:
            latency = round((clock() - start) * 1000, 3)
            status: Literal["ok", "error"] = "ok" if error is None else "error"
            write(LogEntry(*split_model(request.model), latency, status, usage, error, operation))

        try:
            async with closing(next(request)) as events:
                async for event in events:
                    if isinstance(event, MessageDone | OperationDone) and not is_logged:
                        is_logged = True  # before the yield: the caller need not read on
                        write_entry(event.response.usage if isinstance(event, MessageDone) else event.usage)
                    yield event
        except BaseException as error:
            if not is_logged:
                ends = {GeneratorExit: "closed by the reader", asyncio.CancelledError: "cancelled"}
                write_entry(error=ends.get(type(error)) or str(error) or type(error).__name__)
            raise
        if not is_logged:
            write_entry()

    return log_call
