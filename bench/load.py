"""The load of the soak: every kind of call and of trouble, in all dialects, each checked as it is made.

    python -m bench.load        runs the simulator with the scripts of the load; a line of input is answered with how
                                many requests it refused; the end of the input ends it

A kind is named in the first message, and the simulator has a script for each. What happens only the first time, a cut or
a denial, hangs on the very request: so each has a number of its own, and is made again where the trouble is over.
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
from tenuto.client.options import Timeouts
from tenuto.core.events import ContentDelta
from tenuto.errors import IncompleteResponse, LLMError, RateLimited, TimedOut, Unavailable
from tenuto.sim import Simulator
from tenuto.sim.script import Script
from tenuto.store.protocol import Store
from tenuto.testing import call, cut, deny, drip, fail, say, stall, think, turn

MODELS = ("sim/anthropic", "sim/openai", "sim/chat", "sim/gemini")
PIECES = [f"{at % 100:02} and eighteen more." for at in range(200)]
TEXT = "".join(PIECES)
SHORT = ["A few ", "words, ", "drop by drop."]
WAITS = Timeouts(read=60)
HASTY = Timeouts(read=0.4)
"""For who is to meet with silence."""
KEPT = 40
"""How many sessions stay in the store; older ones are deleted, so that a long soak is no test of the disk's size."""
QUICK = Retry(4, base=0.005)
NUMBERS = itertools.count()

SCRIPTS = [
    Script((turn(say(PIECES)),), "[plain]"),
    Script((turn(say(SHORT[0]), drip(5), say("".join(SHORT[1:]))),), "[drip]"),
    Script((turn(deny(429, retry_after=0)), turn(say(PIECES))), "[deny]"),
    *(
        Script((turn(say(PIECES[:100]), trouble, say(PIECES[100:])),), f"[{kind}]")
        for kind, trouble in {"fail": fail(), "cut": cut(), "stall": stall(times=1), "hang": stall()}.items()
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


class Wrong(Exception):
    """What was read is not what was sent."""


Job: TypeAlias = Callable[[], Awaitable[int]]
"""One piece of work; says how many deltas were read."""


@tool(effect="pure")
async def look(at: int) -> str:
    """Look at a place."""
    await asyncio.sleep(0)
    return f"seen {at}"


class Server:
    """The simulator with the scripts of the load, in a process of its own."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "bench.load"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def refused(self) -> int:
        """How many requests broke a rule: none should."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Load:
    """The jobs, over one client, and one agent for each dialect; all sessions in one store."""

    def __init__(self, url: str, store: Store) -> None:
        providers = {"sim": {"base_url": f"{url}/v1"}}
        self._store = store
        self._done: deque[str] = deque()
        self.client = AsyncClient(providers=providers, middleware=[])
        self.patient = AsyncClient(providers=providers, middleware=[QUICK])
        told = {"tools": [look], "store": store, "client": self.client, "retry": QUICK, "limits": Limits(turns=20)}
        self.agents = {model: AsyncAgent(model, **told, allow_unverified=True) for model in MODELS}

    async def close(self) -> None:
        for agent in self.agents.values():
            await agent.close()
        await self.client.close()
        await self.patient.close()

    def jobs(self) -> list[tuple[str, Job]]:
        """One round: what everybody does most, and one of each kind of trouble, in each dialect."""
        kinds: list[tuple[str, Callable[[str], Awaitable[int]]]] = [
            *[("stream", self._streamed)] * 6,
            *[("whole", self._whole)] * 2,
            ("drip", self._dripped),
            ("deny", self._denied),
            *[(kind, self._broken(kind, error)) for kind, error in TROUBLES.items()],
            ("left", self._left),
            ("cancelled", self._cancelled),
            *[("session", self._session)] * 2,
        ]
        jobs = [(kind, lambda act=act, model=model: act(model)) for kind, act in kinds for model in MODELS]
        random.Random(9).shuffle(jobs)  # mixed, and the same in each round
        return jobs

    def _said(self, kind: str) -> str:
        return f"[{kind}] {next(NUMBERS)}"

    async def _read(self, ai: AsyncClient, model: str, said: str, waits: Timeouts = WAITS) -> tuple[int, str]:
        deltas = 0
        async with ai.stream(model, said, timeout=waits) as stream:
            async for event in stream:
                deltas += type(event) is ContentDelta
        return deltas, stream.reply.text

    async def _streamed(self, model: str) -> int:
        deltas, text = await self._read(self.client, model, self._said("plain"))
        _same("a stream", model, (deltas >= len(PIECES), text), (True, TEXT))  # a signature may be one more
        return deltas

    async def _whole(self, model: str) -> int:
        reply = await self.client.chat(model, self._said("plain"))
        _same("a whole reply", model, reply.text, TEXT)
        return 0

    async def _dripped(self, model: str) -> int:
        deltas, text = await self._read(self.client, model, self._said("drip"))
        _same("a trickle", model, text, "".join(SHORT))
        return deltas

    async def _denied(self, model: str) -> int:
        """Be told to wait, once by name, and once with a client that tries again by itself."""
        said = self._said("deny")
        await _raised(RateLimited, self._read(self.client, model, said), model)
        deltas, text = await self._read(self.patient, model, self._said("deny"))
        _same("after a denial", model, text, TEXT)
        return deltas

    def _broken(self, kind: str, error: type[LLMError]) -> Callable[[str], Awaitable[int]]:
        """Break in the middle; what came is there. Made again, it is whole."""

        async def act(model: str) -> int:
            said = self._said(kind)
            waits = HASTY if error is TimedOut else WAITS
            broken = await _raised(error, self._read(self.client, model, said, waits), model)
            came = broken.partial.text if broken.partial is not None else ""
            if not TEXT.startswith(came) or not (came or error is TimedOut):  # a busy machine may not get to speak
                raise Wrong(f"{model}, {kind}: of a reply that broke off, {came[:80]!r} is left")
            deltas, text = await self._read(self.client, model, said)
            _same(f"after {kind}", model, text, TEXT)
            return deltas

        return act

    async def _left(self, model: str) -> int:
        """Stop reading in the middle."""
        async with self.client.stream(model, self._said("plain")) as stream:
            async for event in stream:
                if type(event) is ContentDelta:
                    break
        return 1

    async def _cancelled(self, model: str) -> int:
        """Be cancelled while nothing comes."""
        begun = asyncio.Event()

        async def read() -> None:
            async with self.client.stream(model, self._said("hang")) as stream:
                async for _ in stream:
                    begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return 0

    async def _session(self, model: str) -> int:
        """Say something, with two tools; take the session up again by its id, and go on over a cut and a denial."""
        agent = self.agents[model]
        async with agent.session() as session:
            first = await session.send(self._said("agent"))
            id = session.id
        async with await agent.resume(id) as session:
            second = await session.send("And there?")
            _same("a session", model, (first.text, second.text), ("Seen both.", "Seen that, too."))
            _same("its messages", model, len(session.transcript.messages), 8)
            kept = session.transcript
        async with await agent.resume(id) as session:
            _same("the session as it is kept", model, session.transcript, kept)
        self._done.append(id)
        if len(self._done) > KEPT:
            await self._store.delete(self._done.popleft())
        return 0


TROUBLES: dict[str, type[LLMError]] = {"cut": IncompleteResponse, "fail": Unavailable, "stall": TimedOut}


async def _raised(error: type[LLMError], asked: Awaitable[object], model: str) -> LLMError:
    try:
        await asked
    except error as exc:
        return exc
    raise Wrong(f"{model}: no {error.__name__} where there should be one")


def _same(what: str, model: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise Wrong(f"{model}: {what} is {str(found)[:200]!r}, not {str(wanted)[:200]!r}")


def serve() -> None:
    with Simulator(script=SCRIPTS) as sim:
        print(sim.base_url, flush=True)
        for _ in sys.stdin:
            for record in sim.refusals[:5]:
                sys.stderr.write(f"{record.story()}\n")
            print(len(sim.refusals), flush=True)


if __name__ == "__main__":
    serve()
