"""Sessions in small windows: a model that answers from the conversation it receives, and the costs of the simulator."""

from __future__ import annotations

import asyncio
import functools
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from tenuto import AsyncAgent, Compaction, Limits, tool
from tenuto.catalog import models
from tenuto.client.middleware.retry import Retry
from tenuto.client.reply import cost
from tenuto.core.journal import Compacted, CompactionRequested, Entry, RequestFailed, RequestStarted
from tenuto.core.messages import Usage
from tenuto.sim.dialects import TurnRequest
from tenuto.sim.providers import target as simulated_target
from tenuto.sim.script import Compact, Turn
from tenuto.testing import call, say, think

FACT = "my locker is 4711"
BOUND, UNBOUND, GPT = "anthropic/claude-opus-5-5", "anthropic/claude-opus-4-6", "openai/gpt-5.2"


def scene(play):
    """Run a test that awaits."""

    @functools.wraps(play)
    def run(*args, **kwargs):
        asyncio.run(play(*args, **kwargs))

    return run


@contextmanager
def window(size: int) -> Iterator[None]:
    """Set the context window of every model, for clients and for the simulator."""
    find = models._find

    def find_small(provider: str, model: str) -> Any:
        match = find(provider, model)
        return match and (match[0], replace(match[1], context_window=size))

    def use(function: Any) -> None:
        models._find = function
        simulated_target.cache_clear()

    use(find_small)
    try:
        yield
    finally:
        use(find)


def summary_text(request: TurnRequest) -> str:
    """Return the conversation in a request for a local summary; empty for another request."""
    last = request.messages[-1].text if request.messages else ""
    return last if last.startswith("Write a summary of the conversation") else ""


def summarize(request: TurnRequest) -> Turn:
    """Answer a request for a local summary with the facts of the user."""
    facts = dict.fromkeys(re.findall(r"my \w+ is \w+", summary_text(request)))
    return (say(f"Goal: look. Facts: {'; '.join(facts)}. The assistant has looked."),)


def play(request: TurnRequest, *, summary: Any = summarize) -> Turn:
    """Answer from the conversation in the request: call a tool once per question, and repeat facts."""
    if request.compaction == "alone":
        return (Compact(),)
    if summary_text(request):
        return tuple(summary(request))
    last = request.messages[-1]
    if "What is my locker?" in last.text:
        read = [request.summary, *(message.text for message in request.messages if message.role == "user")]
        found = re.search(r"my locker is (\d+)", "\n".join(read))
        return (say(found[1] if found else "I do not know."),)
    if last.results:
        return (think("I have seen it."), say("Seen."))
    return (think("I look."), say("I look."), call("look", {"number": request.turn}))


def look_tool(word_count: int):
    @tool(effect="pure", name="look")
    def look(number: int) -> str:
        """Look."""
        return f"result {number}: " + "interesting " * word_count

    return look


def agent(model: str, *, word_count: int = 35, **options: Any) -> AsyncAgent:
    options.setdefault("compaction", Compaction())
    return AsyncAgent(
        model,
        tools=[look_tool(word_count)],
        system=options.pop("system", "Be brief."),
        limits=Limits(turns=None),
        retry=Retry(2, base=0.0),
        on_loss="keep",
        **options,
    )


def kinds(entries: list[Entry], kind: type) -> list[Any]:
    return [entry.payload for entry in entries if isinstance(entry.payload, kind)]


def request_count(entries: list[Entry]) -> int:
    """Return the number of requests that the audit can compare."""
    return sum(bool(one.digest) for kind in (RequestStarted, CompactionRequested) for one in kinds(entries, kind))


def failures(entries: list[Entry]) -> list[str]:
    return [one.error for one in kinds(entries, RequestFailed)]


def compactions(entries: list[Entry]) -> list[Compacted]:
    return kinds(entries, Compacted)


# --- costs of the simulator ------------------------------------------------------------------------------------------


class Bill:
    """The cost of all replies that a simulator gives, computed from the bytes of its replies. Its log is bounded."""

    def __init__(self, simulator: Any) -> None:
        self.total = Decimal(0)
        simulator.on_exchange = self._add

    def _add(self, record: Any) -> None:
        if record.status == 200 and record.method == "POST":
            self.total += _cost(record)


def _cost(record: Any) -> Decimal:
    fresh, read, written, output = _counts(_usage(record))
    usage = Usage(input_tokens=fresh, cache_read_tokens=read, cache_write_tokens=written, output_tokens=output)
    provider = {"gemini": "google"}.get(record.provider, record.provider)
    paid = cost(usage, provider, record.model, datetime.now(UTC).date())
    assert paid is not None
    return paid


def _usage(record: Any) -> dict[str, Any]:
    """Return the last usage object of a reply, streamed or whole."""
    found: dict[str, Any] = {}
    if record.reply.lstrip().startswith("{"):
        documents = [json.loads(record.reply)]
    else:
        lines = (line.removeprefix("data:").strip() for line in record.reply.splitlines() if line.startswith("data:"))
        documents = [json.loads(line) for line in lines if line.startswith("{")]
    for document in documents:
        inner = document.get("message") or document.get("response") or document
        for name in ("usage", "usageMetadata"):
            found |= document.get(name) or inner.get(name) or {}
    return found


def _counts(usage: dict[str, Any]) -> tuple[int, int, int, int]:
    """Return fresh, cache-read and cache-written input tokens, and output tokens with reasoning."""
    if "promptTokenCount" in usage:
        cached = usage.get("cachedContentTokenCount", 0)
        output = usage.get("candidatesTokenCount", 0) + usage.get("thoughtsTokenCount", 0)
        return usage["promptTokenCount"] - cached, cached, 0, output
    if "prompt_tokens" in usage:
        details = usage.get("prompt_tokens_details") or {}
        cached = details.get("cached_tokens", 0) or usage.get("prompt_cache_hit_tokens", 0)
        return usage["prompt_tokens"] - cached, cached, 0, usage["completion_tokens"]
    if "cache_read_input_tokens" in usage:
        parts = [usage, *(one for one in usage.get("iterations", ()) if one["type"] == "compaction")]
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
        fresh, read, written, output = (sum(part[name] for part in parts) for name in names)
        return fresh, read, written, output
    cached = (usage.get("input_tokens_details") or {}).get("cached_tokens", 0)
    return usage["input_tokens"] - cached, cached, 0, usage["output_tokens"]
