"""Use middleware: a log, retries, a cache, a budget, and a custom function."""

from collections.abc import AsyncIterator

from tenuto import ChatRequest, Client
from tenuto.events import ContentDelta, StreamEvent
from tenuto.middleware import LogEntry, Next, budget, cache, logger, retry


def log(entry: LogEntry) -> None:
    """Print a line for each call."""
    print(f"log: {entry.provider}/{entry.model} {entry.status}")


async def count_deltas(request: ChatRequest, next: Next) -> AsyncIterator[StreamEvent]:
    """Count the deltas; events pass through middleware with and without streaming."""
    deltas = 0
    async for event in next(request):
        deltas += isinstance(event, ContentDelta)
        yield event
    print(f"deltas of {request.model}: {deltas}")


limit = budget(usd=1)
with Client(middleware=[logger(log), retry(), cache(ttl=60), limit], default_provider="openai") as ai:
    ai.use(count_deltas)  # the last one added is closest to the provider
    for _ in range(2):  # the cache answers the second call
        reply = ai.chat("gpt-5.2", "What is the capital of Norway?")
        print(reply.text, "for", reply.cost, "USD")
    print("remaining:", limit.remaining_usd, "USD")
