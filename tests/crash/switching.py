"""Run a session of sixty turns with tools that switches to another provider at every turn, is killed and continued.

It uses all four dialects and a chat provider for each form of reasoning; it switches at every turn and, after a kill,
within a turn. The simulator enforces the rules of the providers and must refuse nothing. A request is repeated only after
a kill, each provider gets back every token that it gave, and every request of the journal can be rebuilt byte for byte.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from crash.agent_check import entries_of
from crash.dialects import _find_unsent, _tokens, look, pay
from crash.experiments import COMMITS, Experiment
from crash.provider import TAG, Exchange, SimulatorProcess
from crash.sweep import run_in_child
from crash.tracing import EVENT, kill_self, wrap_marks
from crash.work import run_create_tables
from tenuto import Limits, resolve
from tenuto.agent.agent import AsyncAgent
from tenuto.agent.session import AsyncSession
from tenuto.audit import audit
from tenuto.client.middleware.retry import Retry
from tenuto.core.journal import Entry, HandedOver, MessageAdded, ReplyReceived, RequestStarted
from tenuto.errors import SessionNotFound
from tenuto.rules import all_rules
from tenuto.sim.script import Script
from tenuto.store.sql_store import SqlStore
from tenuto.testing import call, say, think, turn

TURNS = 60
KILLS = 6
MARKS_BETWEEN_KILLS = 250
"""The approximate number of marks between two kills."""
MODELS = (
    "anthropic", "openai", "gemini", "chat", "anthropic/claude-opus-5-5", "deepseek", "mistral", "groq", "openrouter", "minimax",
    "moonshot", "xai", "gemini/gemini-3-flash-preview", "azure", "cerebras",
)  # fmt: skip
"""All four dialects; in the chat dialect every field with reasoning and every form of ids."""
STORED = {"OAR-PARAM-06", "OAR-REAS-04"}
"""Replay rules about data stored at the provider, which requests never refer to."""


def _repeat_calls(at: int) -> bool:
    """Return True if the model calls tools again after the first results of a turn."""
    return at % 3 == 0


def _script() -> Script:
    turns = []
    for at in range(TURNS):
        calls = [call("look", {"word": f"word-{at}-0"}), *([call("pay", {"word": f"word-{at}-1"})] if at % 2 else [])]
        turns.append(turn(think(f"thought-{at}."), say(f"said-{at}."), *calls))
        if _repeat_calls(at):
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
        if {resolve(name).dialect for turn, name in enumerate(names) if _repeat_calls(turn)} == dialects:
            return names


# --- in a child -------------------------------------------------------------------------------------------------------


def _agent(experiment: Experiment, store: SqlStore, model: str) -> AsyncAgent:
    return AsyncAgent(
        model,
        system="You are changing providers.",
        tools=[look, pay],
        store=store,
        extra_headers={TAG: experiment.directory.name},
        effort="high",
        limits=Limits(turns=None),
        retry=Retry(0),
        strict=True,
    )


async def _continue_session(experiment: Experiment, way: Sequence[str]) -> str:
    async with experiment.open_database() as store, _agent(experiment, store, way[0]) as agent:
        try:
            session = await agent.resume("run")
        except SessionNotFound:
            session = agent.session("run")
        text = await _last_text(session)
        if session.has_pending_work:
            if text % 2:  # in the middle of a turn
                await session.handover(way[text % TURNS])
            await session.continue_()
        while text < TURNS:
            await session.handover(way[text])
            await session.send(f"question-{text}")
            text += 1
        return session.text


async def _last_text(session: AsyncSession) -> int:
    return sum(isinstance(entry.payload, MessageAdded) for entry in await session.entries())


def _run_until_kill(experiment: Experiment, way: Sequence[str], kill: int) -> str:
    passed = [0]

    def on_mark(_: str, after: int) -> None:
        passed[0] += 1
        if passed[0] == kill:
            kill_self()

    wrap_marks((*COMMITS["sqlite"], (AsyncSession, "_emit", EVENT)), on_mark)
    return asyncio.run(_continue_session(experiment, way))


# --- checks ----------------------------------------------------------------------------------------------------------


async def _run_checks(experiment: Experiment, provider: SimulatorProcess) -> tuple[list[str], set[str], int]:
    async with experiment.open_database() as store:
        entries = await entries_of(store, "run")
        faults = await store.verify()
    exchanges = provider.exchanges(experiment.directory.name)
    wrong = [*_find_violations(entries, exchanges), *map(str, faults)]
    return wrong, {rule for one in exchanges for rule in one.rules_checked}, len(exchanges)


def _find_violations(entries: Sequence[Entry], exchanges: Sequence[Exchange]) -> Iterator[str]:
    yield from (f"refused: {one.refused}" for one in exchanges if one.refused or one.status != 200)
    left: Entry | None = None
    for entry in entries:
        if isinstance(entry.payload, RequestStarted):
            if left is not None and left.fence == entry.fence:
                yield f"entry {entry.seq}: request repeated by the same process"
            left = entry
        elif isinstance(entry.payload, ReplyReceived):
            left = None
    replies = sum(isinstance(entry.payload, ReplyReceived) for entry in entries)
    changes = sum(isinstance(entry.payload, HandedOver) for entry in entries)
    if replies != sum(2 + _repeat_calls(at) for at in range(TURNS)) or changes < TURNS - 1:
        yield f"{replies} replies, {changes} changes of provider"
    yield from _find_lost_tokens(entries, exchanges)
    report = audit(entries)
    request = sum(isinstance(entry.payload, RequestStarted) for entry in entries)
    if report.compared != request or not report.clean:
        yield f"{request} requests, rebuilt: {report}"


def _find_lost_tokens(entries: Sequence[Entry], exchanges: Sequence[Exchange]) -> Iterator[str]:
    """Yield the tokens that are missing or moved in a later request to their provider."""
    texts = {one.digest: one for one in exchanges}
    options: dict[str, list[str]] = {}
    request: RequestStarted | None = None
    for entry in entries:
        act = entry.payload
        if isinstance(act, RequestStarted):
            request = act
            text = texts[act.digest].request if act.digest in texts else None
            for token in _find_unsent(text, options.get(act.model, [])) if text is not None else ():
                yield f"entry {entry.seq}: {act.model} does not get its token {token:.40} back"
        elif isinstance(act, ReplyReceived) and request is not None:
            options.setdefault(request.model, []).extend(_tokens(texts[request.digest].response))


def list_unchecked_rules(rules_checked: set[str]) -> list[str]:
    """Return the replay rules of reasoning that were never checked."""
    dialects = {resolve(f"sim/{model}").dialect for model in MODELS}
    replay = {
        rule.id
        for rule in all_rules().values()
        if rule.dialect in dialects and rule.severity == "refused" and rule.check is not None
        and not rule.only
        and any(part in rule.id for part in ("-THINK-", "-REAS-", "-SIG-"))
    }  # fmt: skip
    return sorted(replay - rules_checked - STORED)


# --- the sweep ---------------------------------------------------------------------------------------------------------


def run_sweep(base: Path, provider: SimulatorProcess, seed: int) -> int:
    """Run the session, print the results and return the number of violations."""
    began = time.monotonic()
    os.environ["TENUTO_SIM_URL"] = provider.url
    template = Experiment("sqlite", base, None, "making", "")
    run_in_child(lambda: run_create_tables(template))
    experiment = Experiment("sqlite", base, None, "switching", str(template.directory / "home" / "sessions.db"))
    chance, way = random.Random(seed), route(seed)
    killed = 0
    for kill in [*(chance.randrange(1, MARKS_BETWEEN_KILLS) for _ in range(KILLS)), 0]:
        status, text = run_in_child(lambda kill=kill: _run_until_kill(experiment, way, kill))
        if status != signal.SIGKILL:
            break
        killed += 1
    wrong, rules_checked, questions = [f"ended with {status} {text}"], set(), 0
    if str(text).strip() == f"done-{TURNS - 1}.":
        status, check_all = run_in_child(lambda: asyncio.run(_run_checks(experiment, provider)))
        wrong, rules_checked, questions = (
            check_all if isinstance(check_all, tuple) else ([f"not judged: {status} {check_all}"], rules_checked, 0)
        )
        wrong += [f"never put to the test: {rule}" for rule in list_unchecked_rules(rules_checked)]
    print(
        f"changing: {TURNS} turns (seed {seed}), {questions} questions, {time.monotonic() - began:.1f} s; rules that were tried:"
    )
    print(f"    {len(rules_checked)}: {', '.join(sorted(rules_checked))}")
    for what in wrong[:20]:
        print(f"  VIOLATION: {what[-2000:]}")
    print(f"switching: killed {killed}, not reached 0, violations {len(wrong)}")
    return len(wrong)
