"""Define the jobs of the soak: every kind of call and fault, in all dialects, each with checked results.

    python -m bench.load        runs the simulator with the scripts of the jobs; prints the number of refused requests
                                for each line of input and exits at the end of the input

The first message names the kind of a job, and the simulator has a script for each kind. A fault happens only the first
time that a request is sent, so each prompt has a number, and the same request is sent again after the fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import subprocess
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from tenuto import AsyncClient, Limits, tool
from tenuto.agent.agent import AsyncAgent
from tenuto.client.middleware.retry import Retry
from tenuto.client.parameters import Timeouts
from tenuto.core.events import ContentDelta
from tenuto.errors import IncompleteResponse, LLMError, RateLimited, TimedOut, Unavailable
from tenuto.sim import Simulator
from tenuto.sim.script import Script
from tenuto.store.protocol import Store
from tenuto.testing import call, cut, deny, drip, fail, say, stall, think, turn

MODELS = ("sim/anthropic", "sim/openai", "sim/chat", "sim/gemini")
TEXTS = [f"{at % 100:02} and eighteen more." for at in range(200)]
TEXT = "".join(TEXTS)
SLOW_TEXTS = ["A few ", "words, ", "drop by drop."]
TIMEOUTS = Timeouts(read=60)
SHORT_TIMEOUTS = Timeouts(read=0.4)
"""For requests that get no data."""
MAX_SESSIONS = 40
"""The number of sessions in the store; older ones are deleted, so that the store does not grow during a long soak."""
RETRY = Retry(4, base=0.005)
NUMBERS = itertools.count()

SCRIPTS = [
    Script((turn(say(TEXTS)),), "[plain]"),
    Script((turn(say(SLOW_TEXTS[0]), drip(5), say("".join(SLOW_TEXTS[1:]))),), "[drip]"),
    Script((turn(deny(429, retry_after=0)), turn(say(TEXTS))), "[deny]"),
    *(
        Script((turn(say(TEXTS[:100]), fault, say(TEXTS[100:])),), f"[{kind}]")
        for kind, fault in {"fail": fail(), "cut": cut(), "stall": stall(times=1), "hang": stall()}.items()
    ),
    Script(
        (
            turn(think("Two places."), call("look", {"at": 1}), call("look", {"at": 2})),
            turn(say("Seen both.")),
            turn(think("Once more."), call("look", {"at": 3}), cut()),
            turn(deny(429, retry_after=0), say("Seen that, too.")),
        ),
        "[agent]",
    ),
]


class MismatchError(Exception):
    """Raised if the data received differs from the data sent."""


Job: TypeAlias = Callable[[], Awaitable[int]]
"""One call or session; returns the number of deltas received."""


@tool(effect="pure")
async def look(at: int) -> str:
    """Return a fixed text."""
    await asyncio.sleep(0)
    return f"seen {at}"


class Server:
    """The simulator with the scripts of the jobs, in another process."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "bench.load"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def count_refused(self) -> int:
        """Return the number of refused requests."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Load:
    """The jobs, with one client, one agent for each dialect and one store."""

    def __init__(self, url: str, store: Store) -> None:
        providers = {"sim": {"base_url": f"{url}/v1"}}
        self._store = store
        self._finished: deque[str] = deque()
        self.client = AsyncClient(providers=providers, middleware=[])
        self.retrying_client = AsyncClient(providers=providers, middleware=[RETRY])
        options = {"tools": [look], "store": store, "client": self.client, "retry": RETRY, "limits": Limits(turns=20)}
        self.agents = {model: AsyncAgent(model, **options, allow_unverified=True) for model in MODELS}

    async def close(self) -> None:
        for agent in self.agents.values():
            await agent.close()
        await self.client.close()
        await self.retrying_client.close()

    def jobs(self) -> list[tuple[str, Job]]:
        """Return one round of jobs: mostly streams, and one of each kind of fault, in each dialect."""
        kinds: list[tuple[str, Callable[[str], Awaitable[int]]]] = [
            *[("stream", self._stream)] * 6,
            *[("whole", self._chat)] * 2,
            ("drip", self._stream_slowly),
            ("deny", self._get_denied),
            *[(kind, self._make_failing(kind, error)) for kind, error in FAULTS.items()],
            ("stop", self._stop_reading),
            ("cancelled", self._cancel),
            *[("session", self._session)] * 2,
        ]
        jobs = [
            (kind, lambda function=function, model=model: function(model))
            for kind, function in kinds
            for model in MODELS
        ]
        random.Random(9).shuffle(jobs)  # shuffled, in the same order in each round
        return jobs

    def _make_prompt(self, kind: str) -> str:
        return f"[{kind}] {next(NUMBERS)}"

    async def _read(self, ai: AsyncClient, model: str, prompt: str, timeouts: Timeouts = TIMEOUTS) -> tuple[int, str]:
        deltas = 0
        async with ai.stream(model, prompt, timeout=timeouts) as stream:
            async for event in stream:
                deltas += type(event) is ContentDelta
        return deltas, stream.reply.text

    async def _stream(self, model: str) -> int:
        deltas, text = await self._read(self.client, model, self._make_prompt("plain"))
        _check_equal(
            "the stream", model, (deltas >= len(TEXTS), text), (True, TEXT)
        )  # a signature may be an additional delta
        return deltas

    async def _chat(self, model: str) -> int:
        reply = await self.client.chat(model, self._make_prompt("plain"))
        _check_equal("the reply", model, reply.text, TEXT)
        return 0

    async def _stream_slowly(self, model: str) -> int:
        deltas, text = await self._read(self.client, model, self._make_prompt("drip"))
        _check_equal("the slow stream", model, text, "".join(SLOW_TEXTS))
        return deltas

    async def _get_denied(self, model: str) -> int:
        """Get `RateLimited`, then repeat with a client that retries."""
        prompt = self._make_prompt("deny")
        await _catch(RateLimited, self._read(self.client, model, prompt), model)
        deltas, text = await self._read(self.retrying_client, model, self._make_prompt("deny"))
        _check_equal("the reply after a denial", model, text, TEXT)
        return deltas

    def _make_failing(self, kind: str, error: type[LLMError]) -> Callable[[str], Awaitable[int]]:
        """Return a job whose stream fails in the middle and succeeds on the second attempt."""

        async def function(model: str) -> int:
            prompt = self._make_prompt(kind)
            timeouts = SHORT_TIMEOUTS if error is TimedOut else TIMEOUTS
            error_raised = await _catch(error, self._read(self.client, model, prompt, timeouts), model)
            received = error_raised.partial.text if error_raised.partial is not None else ""
            if not TEXT.startswith(received) or not (
                received or error is TimedOut
            ):  # on a busy machine, the timeout may come first
                raise MismatchError(f"{model}, {kind}: the partial reply is {received[:80]!r}")
            deltas, text = await self._read(self.client, model, prompt)
            _check_equal(f"the reply after {kind}", model, text, TEXT)
            return deltas

        return function

    async def _stop_reading(self, model: str) -> int:
        """Stop reading in the middle of a stream."""
        async with self.client.stream(model, self._make_prompt("plain")) as stream:
            async for event in stream:
                if type(event) is ContentDelta:
                    break
        return 1

    async def _cancel(self, model: str) -> int:
        """Cancel a task that waits for data."""
        started = asyncio.Event()

        async def read() -> None:
            async with self.client.stream(model, self._make_prompt("hang")) as stream:
                async for _ in stream:
                    started.set()

        task = asyncio.create_task(read())
        await started.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return 0

    async def _session(self, model: str) -> int:
        """Run a session with tool calls, resume it by its id, and continue after a lost connection and a denial."""
        agent = self.agents[model]
        async with agent.session() as session:
            first = await session.send(self._make_prompt("agent"))
            id = session.id
        async with await agent.resume(id) as session:
            second = await session.send("And there?")
            _check_equal("the replies", model, (first.text, second.text), ("Seen both.", "Seen that, too."))
            _check_equal("the number of messages", model, len(session.transcript.messages), 8)
            stored_transcript = session.transcript
        async with await agent.resume(id) as session:
            _check_equal("the stored transcript", model, session.transcript, stored_transcript)
        self._finished.append(id)
        if len(self._finished) > MAX_SESSIONS:
            await self._store.delete(self._finished.popleft())
        return 0


FAULTS: dict[str, type[LLMError]] = {"cut": IncompleteResponse, "fail": Unavailable, "stall": TimedOut}


async def _catch(error: type[LLMError], awaitable: Awaitable[object], model: str) -> LLMError:
    try:
        await awaitable
    except error as exc:
        return exc
    raise MismatchError(f"{model}: expected {error.__name__}")


def _check_equal(what: str, model: str, actual: object, expected: object) -> None:
    if actual != expected:
        raise MismatchError(f"{model}: {what} is {str(actual)[:200]!r}, not {str(expected)[:200]!r}")


def serve() -> None:
    with Simulator(script=SCRIPTS) as sim:
        print(sim.base_url, flush=True)
        for _ in sys.stdin:
            for record in sim.refusals[:5]:
                sys.stderr.write(f"{record.explain()}\n")
            print(len(sim.refusals), flush=True)


if __name__ == "__main__":
    serve()
