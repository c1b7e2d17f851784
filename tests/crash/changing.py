"""A session of sixty turns with tools that goes on with another provider at every turn, killed and gone on with.

It goes through all four dialects and a chat provider of each way of handing on reasoning, there and back, at every turn
and, where a kill left a turn half done, in its midst. The simulator is as strict as whom it plays and must refuse
nothing; nobody is asked twice but where a kill cut the first time off; each provider finds every token that it gave in
its place; and every question of the journal can be made again, byte for byte.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from crash.agent_judge import entries_of
from crash.dialects import _tokens, _unsent, look, pay
from crash.places import COMMITS, Place
from crash.provider import TAG, Heard, Provider
from crash.sweep import in_child
from crash.tracing import EVENT, around, die
from crash.work import run_opened
from tenuto import Limits, resolve
from tenuto.agent.agent import AsyncAgent
from tenuto.agent.session import AsyncSession
from tenuto.audit import audit
from tenuto.client.middleware.retry import Retry
from tenuto.core.journal import Entry, HandedOver, MessageAdded, ReplyReceived, RequestStarted
from tenuto.core.rules import rules
from tenuto.errors import SessionNotFound
from tenuto.sim.script import Script
from tenuto.sim.voices import voice
from tenuto.store.sql_store import SqlStore
from tenuto.testing import call, say, think, turn

TURNS = 60
KILLS = 6
APART = 250
"""How many marks there are about to be passed between two kills."""
MODELS = (
    "anthropic", "openai", "gemini", "chat", "anthropic/claude-opus-5-5", "deepseek", "mistral", "groq", "openrouter", "minimax",
    "moonshot", "xai", "gemini/gemini-3-flash-preview", "azure", "cerebras",
)  # fmt: skip
"""All four dialects; in the chat dialect every field in which reasoning stands, and every form of ids."""
STORED = {"OAR-PARAM-06", "OAR-REAS-04"}
"""Replay rules about what the provider keeps under an id: nothing is ever sent that would refer to that."""


def _twice(at: int) -> bool:
    """Tell whether tools are called a second time in a turn, once the first results are there."""
    return at % 3 == 0


def _script() -> Script:
    turns = []
    for at in range(TURNS):
        calls = [call("look", {"word": f"word-{at}-0"}), *([call("pay", {"word": f"word-{at}-1"})] if at % 2 else [])]
        turns.append(turn(think(f"thought-{at}."), say(f"said-{at}."), *calls))
        if _twice(at):
            turns.append(turn(think(f"again-{at}."), call("look", {"word": f"word-{at}-2"})))
        turns.append(turn(think(f"more-{at}."), say(f"done-{at}.")))
    return Script(tuple(turns), "changing providers")


SCRIPTS = (_script(),)


def route(seed: int) -> list[str]:
    """Return the model of each turn: each as often as the others, never the same twice in a row.

    Each dialect gets a turn with two tool steps, because some rules apply only there.
    """
    chance = random.Random(seed)
    while True:
        models: list[str] = []
        while len(models) < TURNS:
            some = list(MODELS)
            chance.shuffle(some)
            if models and some[0] == models[-1]:
                some.append(some.pop(0))
            models += some
        names = [f"sim/{model}" for model in models[:TURNS]]
        dialects = {resolve(name).dialect for name in names}
        if {resolve(name).dialect for turn, name in enumerate(names) if _twice(turn)} == dialects:
            return names


# --- in a child -------------------------------------------------------------------------------------------------------


def _agent(place: Place, store: SqlStore, model: str) -> AsyncAgent:
    return AsyncAgent(
        model,
        system="You are changing providers.",
        tools=[look, pay],
        store=store,
        extra_headers={TAG: place.folder.name},
        effort="high",
        limits=Limits(turns=None),
        retry=Retry(0),
        strict=True,
    )


async def _gone_on(place: Place, way: Sequence[str]) -> str:
    async with place.whole() as store, _agent(place, store, way[0]) as agent:
        try:
            session = await agent.resume("run")
        except SessionNotFound:
            session = agent.session("run")
        said = await _said(session)
        if session.has_pending_work:
            if said % 2:  # in the midst of a turn
                await session.handover(way[said % TURNS])
            await session.continue_()
        while said < TURNS:
            await session.handover(way[said])
            await session.send(f"question-{said}")
            said += 1
        return session.text


async def _said(session: AsyncSession) -> int:
    return sum(isinstance(entry.payload, MessageAdded) for entry in await session.entries())


def _walked(place: Place, way: Sequence[str], kill: int) -> str:
    passed = [0]

    def told(_: str, after: int) -> None:
        passed[0] += 1
        if passed[0] == kill:
            die()

    around((*COMMITS["sqlite"], (AsyncSession, "_emit", EVENT)), told)
    return asyncio.run(_gone_on(place, way))


# --- judging ----------------------------------------------------------------------------------------------------------


async def _judged(place: Place, provider: Provider) -> tuple[list[str], set[str], int]:
    async with place.whole() as store:
        entries = await entries_of(store, "run")
        faults = await store.verify()
    heard = provider.heard(place.folder.name)
    wrong = [*_wrong(entries, heard), *map(str, faults)]
    return wrong, {rule for one in heard for rule in one.tried}, len(heard)


def _wrong(entries: Sequence[Entry], heard: Sequence[Heard]) -> Iterator[str]:
    yield from (f"refused: {one.refused}" for one in heard if one.refused or one.status != 200)
    left: Entry | None = None
    for entry in entries:
        if isinstance(entry.payload, RequestStarted):
            if left is not None and left.fence == entry.fence:
                yield f"entry {entry.seq}: asked again by the same process"
            left = entry
        elif isinstance(entry.payload, ReplyReceived):
            left = None
    replies = sum(isinstance(entry.payload, ReplyReceived) for entry in entries)
    changes = sum(isinstance(entry.payload, HandedOver) for entry in entries)
    if replies != sum(2 + _twice(at) for at in range(TURNS)) or changes < TURNS - 1:
        yield f"{replies} replies, {changes} changes of provider"
    yield from _lost_tokens(entries, heard)
    report = audit(entries)
    asked = sum(isinstance(entry.payload, RequestStarted) for entry in entries)
    if report.compared != asked or not report.clean:
        yield f"{asked} questions, made again: {report}"


def _lost_tokens(entries: Sequence[Entry], heard: Sequence[Heard]) -> Iterator[str]:
    """Say which token that a provider gave is not where it was when that provider is asked again."""
    texts = {one.digest: one for one in heard}
    given: dict[str, list[str]] = {}
    asked: RequestStarted | None = None
    for entry in entries:
        act = entry.payload
        if isinstance(act, RequestStarted):
            asked = act
            text = texts[act.digest].asked if act.digest in texts else None
            for token in _unsent(text, given.get(act.model, [])) if text is not None else ():
                yield f"entry {entry.seq}: {act.model} does not get its token {token:.40} back"
        elif isinstance(act, ReplyReceived) and asked is not None:
            given.setdefault(asked.model, []).extend(_tokens(texts[asked.digest].answered))


def unexercised(tried: set[str]) -> list[str]:
    """Return the replay rules that were never put to the test: what must come back as it was given."""
    dialects = {resolve(f"sim/{model}").dialect for model in MODELS}
    replay = {
        row.id
        for row in rules().values()
        if row.dialect in dialects and row.needs == "ledger" and row.severity == "refused"
        and row.tier != "later" and row.id in voice(row.dialect).checks
    }  # fmt: skip
    return sorted(replay - tried - STORED)


# --- doing it ---------------------------------------------------------------------------------------------------------


def swept(base: Path, provider: Provider, seed: int) -> int:
    """Do it; print what was found; return how much was wrong."""
    began = time.monotonic()
    os.environ["TENUTO_SIM_URL"] = provider.url
    made = Place("sqlite", base, None, "making", "")
    in_child(lambda: run_opened(made))
    place = Place("sqlite", base, None, "changing", str(made.folder / "home" / "sessions.db"))
    chance, way = random.Random(seed), route(seed)
    killed = 0
    for kill in [*(chance.randrange(1, APART) for _ in range(KILLS)), 0]:
        status, said = in_child(lambda kill=kill: _walked(place, way, kill))
        if status != signal.SIGKILL:
            break
        killed += 1
    wrong, tried, questions = [f"ended with {status} {said}"], set(), 0
    if str(said).strip() == f"done-{TURNS - 1}.":
        status, judged = in_child(lambda: asyncio.run(_judged(place, provider)))
        wrong, tried, questions = (
            judged if isinstance(judged, tuple) else ([f"not judged: {status} {judged}"], tried, 0)
        )
        wrong += [f"never put to the test: {rule}" for rule in unexercised(tried)]
    print(
        f"changing: {TURNS} turns (seed {seed}), {questions} questions, {time.monotonic() - began:.1f} s; rules that were tried:"
    )
    print(f"    {len(tried)}: {', '.join(sorted(tried))}")
    for what in wrong[:20]:
        print(f"  VIOLATION: {what[-2000:]}")
    print(f"changing: killed {killed}, not reached 0, violations {len(wrong)}")
    return len(wrong)
