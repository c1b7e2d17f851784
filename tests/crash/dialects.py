"""Run sessions with every simulated provider, kill them at random moments and continue them in new processes.

The simulator enforces the rules of the provider. It must refuse nothing and get one request for each turn, except for
requests that a kill interrupted. Each request must contain all blocks and tokens of the earlier turns in order, as in the
journal and as the simulator sent them. A token that is changed in the journal must be refused, which shows that tokens
are checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from crash.agent_check import entries_of
from crash.experiments import COMMITS, Experiment
from crash.provider import TAG, Exchange, SimulatorProcess
from crash.sweep import Child as Child
from crash.sweep import run_in_child
from crash.tracing import EVENT, kill_self, wrap_marks
from crash.work import run_create_tables
from tenuto import Limits, resolve, tool
from tenuto.agent.agent import AsyncAgent
from tenuto.agent.session import AsyncSession
from tenuto.client.middleware.retry import Retry
from tenuto.core.blocks import Reasoning, Text, ToolUse
from tenuto.core.journal import Entry, ReplyReceived, RequestStarted, sha256_hex, transcript_of
from tenuto.core.messages import AssistantMessage, Message, ToolResults
from tenuto.errors import LLMError, SessionNotFound
from tenuto.sim.providers import all_providers
from tenuto.sim.script import Script
from tenuto.store.sql_store import SqlStore
from tenuto.testing import call, say, think, turn

NAMES = tuple(sorted({provider.name for provider in all_providers()}))
DIALECT_PROVIDERS = ("anthropic", "openai", "chat", "gemini")
"""One provider for each dialect."""
SIGNING = ("anthropic", "openai", "openrouter", "gemini")
"""Providers of each dialect whose tokens are checked."""
ALL_SIGNING = (*SIGNING, "azure", "vertex", "xai")


class Length(NamedTuple):
    """The number of turns and kills of a session, and the approximate number of marks between two kills."""

    turns: int
    kills: int
    apart: int


LENGTHS = {"two": Length(2, 2, 40), "fifty": Length(50, 8, 400)}


def _script(name: str) -> Script:
    turns = [
        turn(
            think(f"thought-{at}."),
            say(f"said-{at}."),
            *(call("look", {"word": f"word-{at}-0"}), call("pay", {"word": f"word-{at}-1"})),
            *([call("look", {"word": f"word-{at}-2"})] if at % 2 else []),
        )
        for at in range(1, LENGTHS[name].turns + 1)
    ]
    return Script((*turns, turn(think("last thought."), say("It is done.")), turn(say("And more."))), f"{name} turns")


SCRIPTS = tuple(map(_script, LENGTHS))


class SessionRun(NamedTuple):
    """One session: its provider, its length and its location."""

    style: str
    length: str
    experiment: Experiment

    @property
    def tag(self) -> str:
        return self.experiment.directory.name


@dataclass
class RunResult:
    """The result of some sessions."""

    wrong: list[str] = field(default_factory=list)
    rules_checked: dict[str, set[str]] = field(default_factory=dict)
    count: Counter[str] = field(default_factory=Counter)

    def add(self, other: RunResult) -> None:
        self.wrong += other.wrong
        self.count += other.count
        for dialect, rules in other.rules_checked.items():
            self.rules_checked.setdefault(dialect, set()).update(rules)


# --- in a child -------------------------------------------------------------------------------------------------------


@tool(effect="pure")
def look(word: str) -> str:
    """Look."""
    return f"seen {word}"


@tool(effect="once")
async def pay(word: str) -> str:
    """Pay."""
    return f"paid {word}"


def _agent(session_run: SessionRun, store: SqlStore) -> AsyncAgent:
    return AsyncAgent(
        f"sim/{session_run.style}",
        system=f"You have {session_run.length} turns.",
        tools=[look, pay],
        store=store,
        extra_headers={TAG: session_run.tag},
        effort="high",
        limits=Limits(turns=None),
        retry=Retry(0),
        strict=True,
    )


async def _continue_session(session_run: SessionRun) -> str:
    """Start or continue the session to its end; return the last text."""
    async with session_run.experiment.open_database() as store, _agent(session_run, store) as agent:
        try:
            session = await agent.resume("run")
        except SessionNotFound:
            session = agent.session("run")
            await session.send("Go.")
        await session.continue_()
        return session.text


def _run_until_kill(session_run: SessionRun, kill: int) -> str:
    """Continue the session and kill the process at a mark."""
    passed = [0]

    def on_mark(_: str, after: int) -> None:
        passed[0] += 1
        if passed[0] == kill:
            kill_self()

    wrap_marks((*COMMITS["sqlite"], (AsyncSession, "_emit", EVENT)), on_mark)
    return asyncio.run(_continue_session(session_run))


# --- checks ----------------------------------------------------------------------------------------------------------


async def _run_checks(session_run: SessionRun, provider: SimulatorProcess) -> RunResult:
    found = RunResult()
    async with session_run.experiment.open_database() as store:
        entries = await entries_of(store, "run")
        faults = await store.verify()
    exchanges = provider.exchanges(session_run.tag)
    where = f"{session_run.style}, {session_run.length} turns"
    found.wrong += [
        f"{where}: {what}" for what in (*_find_violations(session_run, entries, exchanges), *map(str, faults))
    ]
    dialect = next(
        entry.payload.message.origin.dialect for entry in entries if isinstance(entry.payload, ReplyReceived)
    )
    found.rules_checked[dialect] = {rule for one in exchanges for rule in one.rules_checked}
    found.count["questions"] += len(exchanges)
    return found


def _find_violations(session_run: SessionRun, entries: Sequence[Entry], exchanges: Sequence[Exchange]) -> Iterator[str]:
    """Yield the violations."""
    yield from (f"refused: {one.refused}" for one in exchanges if one.refused or one.status != 200)
    yield from _find_repeated(session_run, entries, [one.digest for one in exchanges])
    for message, after in _pairs(entries):
        calls = [view.id for view in message.tool_calls()]
        results = [result.tool_use_id for result in after.results] if isinstance(after, ToolResults) else []
        if calls != results:
            yield f"calls {calls}, results {results}"
    row = resolve(f"sim/{session_run.style}")
    silent = row.dialect == "openai-chat" and row.provider.chat.passback == "never"
    texts = {one.digest: one.request for one in exchanges}
    tokens: list[str] = []
    for at, entry in enumerate(entries):
        if isinstance(entry.payload, RequestStarted) and entry.payload.digest in texts:
            text = texts[entry.payload.digest]
            yield from _find_missing_blocks(text, entries[:at], silent=silent)
            yield from (
                f"entry {entry.seq}: the provider's token {t:.40} is not sent back" for t in _find_unsent(text, tokens)
            )
        if isinstance(entry.payload, ReplyReceived):
            request = next(e.payload.digest for e in reversed(entries[:at]) if isinstance(e.payload, RequestStarted))
            answer = next((one.response for one in reversed(exchanges) if one.digest == request), "")
            tokens += _tokens(answer)


def _find_repeated(session_run: SessionRun, entries: Sequence[Entry], exchanges: list[str]) -> Iterator[str]:
    """Yield repeated requests of a turn without a kill between them."""
    left: Entry | None = None
    replies = 0
    for entry in entries:
        if isinstance(entry.payload, RequestStarted):
            if left is not None and left.fence == entry.fence:
                yield f"entry {entry.seq}: request repeated by the same process"
            left = entry
        elif isinstance(entry.payload, ReplyReceived):
            left, replies = None, replies + 1
    if replies != LENGTHS[session_run.length].turns + 1:
        yield f"{replies} replies"
    request = iter([entry.payload.digest for entry in entries if isinstance(entry.payload, RequestStarted)])
    if not all(any(digest == other for other in request) for digest in exchanges):
        yield "the requests differ from the journal, or are in another order"


def _pairs(entries: Sequence[Entry]) -> Iterator[tuple[AssistantMessage, Any]]:
    messages = transcript_of(entries).messages
    for message, after in pairwise(messages):
        if isinstance(message, AssistantMessage):
            yield message, after


def _find_missing_blocks(text: str, before: Sequence[Entry], *, silent: bool) -> Iterator[str]:
    """Yield the blocks of the journal that are missing in a request or in another order.

    `silent`: the provider's row says that readable reasoning is never handed back to it.
    """
    at = 0
    texts: list[str] = []
    for message in transcript_of(before).messages:
        for group in _groups(message, silent=silent):
            experiments = [text.find(needle, at) for needle in group]
            if min(experiments, default=0) < 0:
                yield f"a question lacks {group[experiments.index(-1)]!r:.60}, or has it elsewhere"
                return
            at = max(experiments, default=at)
        if isinstance(message, AssistantMessage):
            texts += [text_part for view in message.tool_calls() for text_part in _WORD.findall(view.args)]
    if list(dict.fromkeys(_WORD.findall(text))) != texts:
        yield f"a question has its calls in another order than {texts}"


def _groups(message: Message, *, silent: bool) -> list[list[str]]:
    """Return the texts of a message that a request must contain, in order."""
    if isinstance(message, ToolResults):
        return [[json.dumps(str(result.content)[:20])[1:-1]] for result in message.results]
    if not isinstance(message, AssistantMessage):
        return []
    groups = [_search_texts(block) for block in message.blocks if not (silent and isinstance(block, Reasoning))]
    # In the chat dialect it is an object with a field for each kind of block, whose order has no meaning
    return [list(chain(*groups))] if message.origin and message.origin.dialect == "openai-chat" else groups


def _search_texts(block: Any) -> list[str]:
    """Return the texts of a block that a request must contain."""
    if isinstance(block, ToolUse):
        return [block.name, *_WORD.findall(block.args)]
    return [json.dumps(block.text)[1:-1]] if isinstance(block, Text | Reasoning) and block.text else []


_WORD = re.compile(r"word-\d+-\d")
_KEPT = re.compile(rb'(?:signature|encrypted_content|thoughtSignature)\\*": ?\\*"([\w+/=-]{16,})')
_TOKEN = re.compile(r'"(?:signature|encrypted_content|thoughtSignature|thought_signature)": ?"([^"]{16,})"')


def _tokens(answer: str) -> list[str]:
    """Return the distinct tokens of a response in order. Responses announces an item with another token than the
    one that it ends with: only its last event counts.
    """
    return list(dict.fromkeys(_TOKEN.findall(answer[max(answer.rfind('"response.completed"'), 0) :])))


def _find_unsent(text: str, tokens: Sequence[str]) -> Iterator[str]:
    at = 0
    for token in tokens:
        experiment = text.find(token, at)
        if experiment < 0:
            yield token
        at = max(at, experiment)


# --- a changed token -------------------------------------------------------------------------------------------------


def _change_token(session_run: SessionRun) -> bool:
    """Change one character of the first token in the database file; return False if there is none."""
    database = sqlite3.connect(session_run.experiment.address())
    with contextlib.closing(database), database:
        for row, body in database.execute(
            "SELECT rowid, body FROM entries WHERE kind = 'reply_received' ORDER BY seq"
        ).fetchall():
            found = _KEPT.search(body)
            if found:
                at = (found.start(1) + found.end(1)) // 2
                other = body[:at] + (b"A" if body[at : at + 1] != b"A" else b"B") + body[at + 1 :]
                changed = (other, sha256_hex(other), row)
                database.execute("UPDATE entries SET body = ?, digest = ? WHERE rowid = ?", changed)
                return True
    return False


async def _send_more(session_run: SessionRun) -> str:
    async with session_run.experiment.open_database() as store, _agent(session_run, store) as agent:
        session = await agent.resume("run")
        return (await session.send("And now?")).text


def _refused(session_run: SessionRun, provider: SimulatorProcess, *, change: bool) -> str | None:
    """Continue a completed session, with or without a changed token; return the violated rule.

    None: there is no token to be changed.
    """
    asyncio.run(_continue_session(session_run))
    if change and not _change_token(session_run):
        return None
    try:
        reply_text = asyncio.run(_send_more(session_run))
    except LLMError:
        return provider.exchanges(session_run.tag)[-1].refused
    return "" if reply_text.strip() == "And more." else f"said {reply_text}"


# --- the sessions ----------------------------------------------------------------------------------------------------


class SessionRuns:
    """All sessions."""

    def __init__(self, base: Path, provider: SimulatorProcess, seed: int, *, is_brief: bool) -> None:
        self._base = base
        self._few = is_brief
        self._provider = provider
        self._seed = seed
        os.environ["TENUTO_SIM_URL"] = provider.url
        experiment = Experiment("sqlite", base, None, "making", "")
        run_in_child(lambda: run_create_tables(experiment))
        self._made = str(experiment.directory / "home" / "sessions.db")
        for style in DIALECT_PROVIDERS:  # forked children have everything loaded
            asyncio.run(_continue_session(self.session_run(style, "two")))

    def session_run(self, style: str, length: str) -> SessionRun:
        return SessionRun(style, length, Experiment("sqlite", self._base, None, "dialects", self._made))

    def run_all(self, chosen: Sequence[tuple[str, str]]) -> RunResult:
        found = RunResult()
        for style, length in chosen:
            found.add(self._run_one(self.session_run(style, length)))
        return found

    def _run_one(self, session_run: SessionRun) -> RunResult:
        """Run a session to its end with several kills."""
        chance = random.Random(f"{self._seed} {session_run.style} {session_run.length}")
        length = LENGTHS[session_run.length]
        killed = 0
        kills = 1 if self._few and length.kills == 2 else length.kills
        for kill in [*(chance.randrange(1, length.apart) for _ in range(kills)), 0]:
            status, reply_text = run_in_child(lambda kill=kill: _run_until_kill(session_run, kill))
            if status != signal.SIGKILL:
                break
            killed += 1
        if str(reply_text).strip() != "It is done.":
            return RunResult([f"{session_run.style}, {session_run.length} turns: ended with {status} {reply_text}"])
        status, found = run_in_child(lambda: asyncio.run(_run_checks(session_run, self._provider)))
        if not isinstance(found, RunResult):
            return RunResult(
                [f"{session_run.style}, {session_run.length} turns: could not be judged: {status} {found}"]
            )
        found.count += Counter({"sessions": 1, "killed": killed})
        session_run.experiment.remove()
        return found


def check_tampering(trips: SessionRuns, provider: SimulatorProcess, *, is_brief: bool) -> RunResult:
    """Check that a changed token is refused, and that the unchanged session continues."""
    found = RunResult()
    for style in SIGNING if is_brief else ALL_SIGNING:
        for change in (True,) if is_brief else (False, True):
            session_run = trips.session_run(style, "two")
            status, rule = run_in_child(
                lambda session_run=session_run, change=change: _refused(session_run, provider, change=change)
            )
            if status or bool(rule) != change:
                found.wrong.append(f"{style}: {'changed' if change else 'not changed'}: {status} {rule}")
            elif change:
                print(f"    {style}: a changed token is refused: {rule:.100}")
    return found


def run_sweep(base: Path, provider: SimulatorProcess, seed: int, processes: int, *, is_brief: bool) -> int:
    """Run all sessions, print the results and return the number of violations. `few`: one long session, fewer kills."""
    began = time.monotonic()
    trips = SessionRuns(base, provider, seed, is_brief=is_brief)
    long = [DIALECT_PROVIDERS[seed % len(DIALECT_PROVIDERS)]] if is_brief else NAMES
    session_keys = [*((style, "two") for style in NAMES), *((style, "fifty") for style in long)]
    random.Random(seed).shuffle(session_keys)
    parts = [
        Child(lambda part=part: trips.run_all(session_keys[part::processes]), timeout=0) for part in range(processes)
    ]
    found = RunResult()
    for part in parts:
        status, value = part.end()
        found.add(value if isinstance(value, RunResult) else RunResult([f"a part ended with {status}: {value}"]))
    counts = ", ".join(f"{name} {times}" for name, times in sorted(found.count.items()))
    print(
        f"dialects: {len(NAMES)} styles (seed {seed}), {counts}, {time.monotonic() - began:.1f} s; rules that were tried:"
    )
    for dialect, rules in sorted(found.rules_checked.items()):
        print(f"    {dialect}: {len(rules)}: {', '.join(sorted(rules))}")
    found.add(check_tampering(trips, provider, is_brief=is_brief))
    for what in found.wrong[:20]:
        print(f"  VIOLATION: {what[-2000:]}")
    print(f"dialects: killed {found.count['killed']}, not reached 0, violations {len(found.wrong)}")
    return len(found.wrong)
