"""Sessions in the style of every provider, killed at moments that a seed chooses and gone on with in new processes.

The simulator is as strict as the provider it plays. It must refuse nothing and be asked once for each turn, but for the
questions that a kill cut off; and each question must hold all blocks and tokens of the turns before it, in their order,
as they stand in the journal and as the simulator itself had sent them. A token that is changed in the journal must be
refused: so it is known that somebody looks.
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

from crash.agent_judge import entries_of
from crash.places import COMMITS, Place
from crash.provider import TAG, Heard, Provider
from crash.sweep import Started as Child
from crash.sweep import in_child
from crash.tracing import EVENT, around, die
from crash.work import run_opened
from tenuto import Limits, resolve, tool
from tenuto.agent.agent import AsyncAgent
from tenuto.agent.session import AsyncSession
from tenuto.client.middleware.retry import Retry
from tenuto.core.blocks import Reasoning, Text, ToolUse
from tenuto.core.journal import Entry, ReplyReceived, RequestStarted, sha256_hex, transcript_of
from tenuto.core.messages import AssistantMessage, Message, ToolResults
from tenuto.errors import LLMError, SessionNotFound
from tenuto.sim.script import Script
from tenuto.sim.styles import STYLES
from tenuto.store.sql_store import SqlStore
from tenuto.testing import call, say, think, turn

NAMES = tuple(sorted({style.name for style in STYLES}))
HOMES = ("anthropic", "openai", "chat", "gemini")
"""One style for each dialect."""
SEALED = ("anthropic", "openai", "openrouter", "gemini")
"""Of each dialect a style whose tokens are looked into."""
ALL_SEALED = (*SEALED, "azure", "vertex", "xai")


class Length(NamedTuple):
    """How long a session is, how often it is killed, and how many marks there are about to be passed between two kills."""

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


class Trip(NamedTuple):
    """One session: in whose style, how long, and where."""

    style: str
    length: str
    place: Place

    @property
    def tag(self) -> str:
        return self.place.folder.name


@dataclass
class Found:
    """What came of some sessions."""

    wrong: list[str] = field(default_factory=list)
    tried: dict[str, set[str]] = field(default_factory=dict)
    count: Counter[str] = field(default_factory=Counter)

    def add(self, other: Found) -> None:
        self.wrong += other.wrong
        self.count += other.count
        for dialect, rules in other.tried.items():
            self.tried.setdefault(dialect, set()).update(rules)


# --- in a child -------------------------------------------------------------------------------------------------------


@tool(effect="pure")
def look(word: str) -> str:
    """Look."""
    return f"seen {word}"


@tool(effect="once")
async def pay(word: str) -> str:
    """Pay."""
    return f"paid {word}"


def _agent(trip: Trip, store: SqlStore) -> AsyncAgent:
    return AsyncAgent(
        f"sim/{trip.style}",
        system=f"You have {trip.length} turns.",
        tools=[look, pay],
        store=store,
        extra_headers={TAG: trip.tag},
        effort="high",
        limits=Limits(turns=None),
        retry=Retry(0),
        strict=True,
    )


async def _gone_on(trip: Trip) -> str:
    """Begin, or go on, to the end; return what is said there."""
    async with trip.place.whole() as store, _agent(trip, store) as agent:
        try:
            session = await agent.resume("run")
        except SessionNotFound:
            session = agent.session("run")
            await session.send("Go.")
        await session.continue_()
        return session.text


def _walked(trip: Trip, kill: int) -> str:
    """Go on, and die at the so-manieth mark, if there are as many."""
    passed = [0]

    def told(_: str, after: int) -> None:
        passed[0] += 1
        if passed[0] == kill:
            die()

    around((*COMMITS["sqlite"], (AsyncSession, "_emit", EVENT)), told)
    return asyncio.run(_gone_on(trip))


# --- judging ----------------------------------------------------------------------------------------------------------


async def _judged(trip: Trip, provider: Provider) -> Found:
    found = Found()
    async with trip.place.whole() as store:
        entries = await entries_of(store, "run")
        faults = await store.verify()
    heard = provider.heard(trip.tag)
    where = f"{trip.style}, {trip.length} turns"
    found.wrong += [f"{where}: {what}" for what in (*_missing(trip, entries, heard), *map(str, faults))]
    dialect = next(
        entry.payload.message.origin.dialect for entry in entries if isinstance(entry.payload, ReplyReceived)
    )
    found.tried[dialect] = {rule for one in heard for rule in one.tried}
    found.count["questions"] += len(heard)
    return found


def _missing(trip: Trip, entries: Sequence[Entry], heard: Sequence[Heard]) -> Iterator[str]:
    """Say what is not as it should be."""
    yield from (f"refused: {one.refused}" for one in heard if one.refused or one.status != 200)
    yield from _attempts(trip, entries, [one.digest for one in heard])
    for message, after in _pairs(entries):
        calls = [view.id for view in message.tool_calls()]
        results = [result.tool_use_id for result in after.results] if isinstance(after, ToolResults) else []
        if calls != results:
            yield f"calls {calls}, results {results}"
    row = resolve(f"sim/{trip.style}")
    silent = row.dialect == "openai-chat" and row.provider.chat.passback == "never"
    texts = {one.digest: one.asked for one in heard}
    tokens: list[str] = []
    for at, entry in enumerate(entries):
        if isinstance(entry.payload, RequestStarted) and entry.payload.digest in texts:
            text = texts[entry.payload.digest]
            yield from _left_out(text, entries[:at], silent=silent)
            yield from (
                f"entry {entry.seq}: the provider's token {t:.40} is not sent back" for t in _unsent(text, tokens)
            )
        if isinstance(entry.payload, ReplyReceived):
            asked = next(e.payload.digest for e in reversed(entries[:at]) if isinstance(e.payload, RequestStarted))
            answer = next((one.answered for one in reversed(heard) if one.digest == asked), "")
            tokens += _tokens(answer)


def _attempts(trip: Trip, entries: Sequence[Entry], heard: list[str]) -> Iterator[str]:
    """Each turn is asked for once; once more only where a kill, and so another holder, stands between."""
    left: Entry | None = None
    replies = 0
    for entry in entries:
        if isinstance(entry.payload, RequestStarted):
            if left is not None and left.fence == entry.fence:
                yield f"entry {entry.seq}: asked again by the same process"
            left = entry
        elif isinstance(entry.payload, ReplyReceived):
            left, replies = None, replies + 1
    if replies != LENGTHS[trip.length].turns + 1:
        yield f"{replies} replies"
    asked = iter([entry.payload.digest for entry in entries if isinstance(entry.payload, RequestStarted)])
    if not all(any(digest == other for other in asked) for digest in heard):
        yield "what was asked is not what the journal says, or in another order"


def _pairs(entries: Sequence[Entry]) -> Iterator[tuple[AssistantMessage, Any]]:
    messages = transcript_of(entries).messages
    for message, after in pairwise(messages):
        if isinstance(message, AssistantMessage):
            yield message, after


def _left_out(text: str, before: Sequence[Entry], *, silent: bool) -> Iterator[str]:
    """Say which blocks of the journal are not in a question, or not in their place.

    `silent`: the provider's row says that readable reasoning is never handed back to it.
    """
    at = 0
    words: list[str] = []
    for message in transcript_of(before).messages:
        for group in _groups(message, silent=silent):
            places = [text.find(needle, at) for needle in group]
            if min(places, default=0) < 0:
                yield f"a question lacks {group[places.index(-1)]!r:.60}, or has it elsewhere"
                return
            at = max(places, default=at)
        if isinstance(message, AssistantMessage):
            words += [word for view in message.tool_calls() for word in _WORD.findall(view.args)]
    if list(dict.fromkeys(_WORD.findall(text))) != words:
        yield f"a question has its calls in another order than {words}"


def _groups(message: Message, *, silent: bool) -> list[list[str]]:
    """Return what has to be found of a message, one part behind the other."""
    if isinstance(message, ToolResults):
        return [[json.dumps(str(result.content)[:20])[1:-1]] for result in message.results]
    if not isinstance(message, AssistantMessage):
        return []
    groups = [_needles(block) for block in message.blocks if not (silent and isinstance(block, Reasoning))]
    # In the chat dialect it is an object with a field for each kind of block, whose order says nothing
    return [list(chain(*groups))] if message.origin and message.origin.dialect == "openai-chat" else groups


def _needles(block: Any) -> list[str]:
    """Return what has to be found of a block in a question's text."""
    if isinstance(block, ToolUse):
        return [block.name, *_WORD.findall(block.args)]
    return [json.dumps(block.text)[1:-1]] if isinstance(block, Text | Reasoning) and block.text else []


_WORD = re.compile(r"word-\d+-\d")
_KEPT = re.compile(rb'(?:signature|encrypted_content|thoughtSignature)\\*": ?\\*"([\w+/=-]{16,})')
_TOKEN = re.compile(r'"(?:signature|encrypted_content|thoughtSignature|thought_signature)": ?"([^"]{16,})"')


def _tokens(answer: str) -> list[str]:
    """Return the tokens of an answer, each once, in their order. Responses announces an item with another token than the
    one that it ends with: only its last event counts.
    """
    return list(dict.fromkeys(_TOKEN.findall(answer[max(answer.rfind('"response.completed"'), 0) :])))


def _unsent(text: str, tokens: Sequence[str]) -> Iterator[str]:
    at = 0
    for token in tokens:
        place = text.find(token, at)
        if place < 0:
            yield token
        at = max(at, place)


# --- a token that is changed ------------------------------------------------------------------------------------------


def _changed(trip: Trip) -> bool:
    """Change one letter of the first token in the journal, behind the store's back; tell whether there is one."""
    database = sqlite3.connect(trip.place.address())
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


async def _asked_more(trip: Trip) -> str:
    async with trip.place.whole() as store, _agent(trip, store) as agent:
        session = await agent.resume("run")
        return (await session.send("And now?")).text


def _refused(trip: Trip, provider: Provider, *, change: bool) -> str | None:
    """Go on with a session that has ended, with or without a changed token; return the rule that was broken.

    None: there is no token to be changed.
    """
    asyncio.run(_gone_on(trip))
    if change and not _changed(trip):
        return None
    try:
        said = asyncio.run(_asked_more(trip))
    except LLMError:
        return provider.heard(trip.tag)[-1].refused
    return "" if said.strip() == "And more." else f"said {said}"


# --- doing it ---------------------------------------------------------------------------------------------------------


class Trips:
    """All of them."""

    def __init__(self, base: Path, provider: Provider, seed: int, *, few: bool) -> None:
        self._base = base
        self._few = few
        self._provider = provider
        self._seed = seed
        os.environ["TENUTO_SIM_URL"] = provider.url
        place = Place("sqlite", base, None, "making", "")
        in_child(lambda: run_opened(place))
        self._made = str(place.folder / "home" / "sessions.db")
        for style in HOMES:  # so that whoever is forked off is warm
            asyncio.run(_gone_on(self.trip(style, "two")))

    def trip(self, style: str, length: str) -> Trip:
        return Trip(style, length, Place("sqlite", self._base, None, "dialects", self._made))

    def done(self, chosen: Sequence[tuple[str, str]]) -> Found:
        found = Found()
        for style, length in chosen:
            found.add(self._one(self.trip(style, length)))
        return found

    def _one(self, trip: Trip) -> Found:
        """Go on, die, go on, until the end."""
        chance = random.Random(f"{self._seed} {trip.style} {trip.length}")
        length = LENGTHS[trip.length]
        killed = 0
        kills = 1 if self._few and length.kills == 2 else length.kills
        for kill in [*(chance.randrange(1, length.apart) for _ in range(kills)), 0]:
            status, said = in_child(lambda kill=kill: _walked(trip, kill))
            if status != signal.SIGKILL:
                break
            killed += 1
        if str(said).strip() != "It is done.":
            return Found([f"{trip.style}, {trip.length} turns: ended with {status} {said}"])
        status, found = in_child(lambda: asyncio.run(_judged(trip, self._provider)))
        if not isinstance(found, Found):
            return Found([f"{trip.style}, {trip.length} turns: could not be judged: {status} {found}"])
        found.count += Counter({"sessions": 1, "killed": killed})
        trip.place.remove()
        return found


def tampered(trips: Trips, provider: Provider, *, few: bool) -> Found:
    """See that a changed token is refused, and that the same session goes on if none was changed."""
    found = Found()
    for style in SEALED if few else ALL_SEALED:
        for change in (True,) if few else (False, True):
            trip = trips.trip(style, "two")
            status, rule = in_child(lambda trip=trip, change=change: _refused(trip, provider, change=change))
            if status or bool(rule) != change:
                found.wrong.append(f"{style}: {'changed' if change else 'not changed'}: {status} {rule}")
            elif change:
                print(f"    {style}: a changed token is refused: {rule:.100}")
    return found


def swept(base: Path, provider: Provider, seed: int, hands: int, *, few: bool) -> int:
    """Do all of them; `few`: one long one, and fewer kills. Print what was found; return how much was wrong."""
    began = time.monotonic()
    trips = Trips(base, provider, seed, few=few)
    long = [HOMES[seed % len(HOMES)]] if few else NAMES
    chosen = [*((style, "two") for style in NAMES), *((style, "fifty") for style in long)]
    random.Random(seed).shuffle(chosen)
    parts = [Child(lambda part=part: trips.done(chosen[part::hands]), patience=0) for part in range(hands)]
    found = Found()
    for part in parts:
        status, value = part.end()
        found.add(value if isinstance(value, Found) else Found([f"a part ended with {status}: {value}"]))
    said = ", ".join(f"{name} {times}" for name, times in sorted(found.count.items()))
    print(
        f"dialects: {len(NAMES)} styles (seed {seed}), {said}, {time.monotonic() - began:.1f} s; rules that were tried:"
    )
    for dialect, rules in sorted(found.tried.items()):
        print(f"    {dialect}: {len(rules)}: {', '.join(sorted(rules))}")
    found.add(tampered(trips, provider, few=few))
    for what in found.wrong[:20]:
        print(f"  VIOLATION: {what[-2000:]}")
    print(f"dialects: killed {found.count['killed']}, not reached 0, violations {len(found.wrong)}")
    return len(found.wrong)
