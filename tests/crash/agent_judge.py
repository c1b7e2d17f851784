"""Judges a session whose process was killed, by going on with it in this one.

The end must be that of the run which nobody killed, but for at most one question that was asked twice, and one honest
`interrupted` for each call of a `once` tool that had been started and had not returned. What took effect is read off the
tools' own ledger, what was asked off the simulator's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from crash.agent_tools import Ran
from crash.places import Place
from crash.provider import Heard, Provider
from crash.stories import MEANWHILE, PROMPT, STORIES, finished, ledger_of, session_of
from tenuto.agent.session import AsyncSession
from tenuto.core.journal import (
    CallFinished,
    CallStarted,
    Entry,
    ReplyReceived,
    RequestFailed,
    RequestStarted,
    SubSessionLinked,
    transcript_of,
)
from tenuto.core.messages import AssistantMessage, Message, ToolResults, UserMessage
from tenuto.core.stored import dump_message
from tenuto.errors import SessionNotFound, TenutoError
from tenuto.store.sql_store import SqlStore

AGAIN = ("pure", "idempotent", "keyed")
_RESULTS = re.compile(r'"tool_use_id": ?"([^"]+)"')


class Uncut(NamedTuple):
    """What a run leaves that nobody kills."""

    entries: list[Entry]
    asked: int


async def entries_of(store: SqlStore, session: str) -> list[Entry]:
    """Read a session; one that is not there has nothing."""
    try:
        return await store.read(session)
    except SessionNotFound:
        return []


class AgentJudge:
    """Looks at one place. `wrong` is what was found."""

    def __init__(self, place: Place, provider: Provider, uncut: Uncut) -> None:
        self.place = place
        self.provider = provider
        self.uncut = uncut
        self.story = STORIES[place.story]
        self.id = session_of(place)
        self.wrong: list[str] = []

    def _expect(self, true: bool, what: str) -> None:
        if not true:
            self.wrong.append(what)

    async def look(self, store: SqlStore) -> None:
        """Compare what is there with what was done; go on; compare that. An error of ours is what it is: a violation."""
        try:
            before = await entries_of(store, self.id)
            self._was_written_first(before, ledger_of(self.place).read())
            if before:
                await self._verify(store)
            async with self.story.agent(self.place, store, True) as agent:
                session = await agent.resume(self.id) if before else agent.session(self.id)
                if not before:
                    await session.send(PROMPT)
                await finished(session)
                await self._ended(session, before, await entries_of(store, self.id))
                await agent.client.close()
            await self._verify(store)
            await self._children(store)
        except (TenutoError, AssertionError) as exc:
            self.wrong.append(f"{type(exc).__name__}: {exc}")

    async def _verify(self, store: SqlStore) -> None:
        for fault in await store.verify(self.id if self.place.before else None):
            self._expect(False, f"verify: {fault}")

    def _was_written_first(self, before: list[Entry], ran: list[Ran]) -> None:
        """Nothing took effect of which the journal did not know beforehand."""
        begun = {(act.idempotency_key, act.attempt) for act in _acts(before, CallStarted)}
        for one in ran:
            if self.story.counted(one.name):
                self._expect((one.key, one.attempt) in begun, f"{one}: took effect, and had not been written down")

    # --- the end ---

    async def _ended(self, session: AsyncSession, before: list[Entry], after: list[Entry]) -> None:
        self._expect([e.body for e in after[: len(before)]] == [e.body for e in before], "entries changed")
        open_then = _open(before)
        self._calls(before, after, open_then)
        self._questions(before, after)
        self._effects(after)
        self._expect(session.status == "completed", f"in the end it is {session.status}")
        self._expect(not session.has_pending_work and await session.continue_() is None, "something is owed in the end")
        if self.story.same:
            self._expect(session.text == str(_last(self.uncut.entries)), f"in the end it says {session.text!r}")
            for what in self._differences(after, open_then):
                self._expect(False, what)

    def _calls(self, before: list[Entry], after: list[Entry], open_then: dict[tuple[int, int], CallStarted]) -> None:
        """Each call has one result, and those whose fate nobody knows say so."""
        results = Counter((at, act.call_index) for at, act in _by_reply(after, CallFinished))
        calls = [(at, ordinal) for at, n in _calls_by_reply(after).items() for ordinal in range(n)]
        self._expect(results == Counter(calls), f"results for {sorted(results.elements())}, calls {calls}")
        unknown = {place for place, act in open_then.items() if act.effect not in AGAIN}
        told = {(at, act.call_index): act for at, act in _by_reply(after, CallFinished) if act.outcome == "interrupted"}
        unknown |= {(at, act.call_index) for at, act in _by_reply(before, CallFinished) if act.outcome == "interrupted"}
        if self.story.same:
            self._expect(told.keys() == unknown, f"interrupted: {sorted(told)}, expected: {sorted(unknown)}")
        for act in told.values():
            honest = act.result.is_error and "may or may not have taken effect" in str(act.result.content)
            self._expect(honest, f"an interrupted call is told as {act.result}")
        messages = transcript_of(after).messages
        for message, follows in pairwise(messages):
            if isinstance(message, AssistantMessage) and message.has_tool_calls():
                ids = [view.id for view in message.tool_calls()]
                given = [result.tool_use_id for result in follows.results] if isinstance(follows, ToolResults) else []
                self._expect(ids == given, f"calls {ids}, results {given}")

    def _questions(self, before: list[Entry], after: list[Entry]) -> None:
        """Nothing was asked that was not written down before, at most one question twice, and nothing was refused."""
        heard = self.provider.heard(self.place.folder.name)
        for one in heard:
            self._expect(not one.refused, f"refused: {one.refused}")
        asked = Counter(act.digest for act in _acts(after, RequestStarted))
        more = Counter(one.digest for one in heard if self._is_own(one)) - asked
        self._expect(not more, f"{more.total()} questions were asked that the journal does not know")
        again = len(_acts(after, RequestStarted)) - len(_acts(self.uncut.entries, RequestStarted))
        left = [e.payload for e in before if isinstance(e.payload, RequestStarted | ReplyReceived | RequestFailed)][-1:]
        expected = 1 if left and isinstance(left[0], RequestStarted) else 0
        if self.story.same:
            exact = again == expected if self.story.bytes else again <= expected
            self._expect(exact, f"{again} questions more than in the run that nobody killed; expected {expected}")
            self._expect(len(heard) <= self.uncut.asked + 1, f"asked {len(heard)} times, {self.uncut.asked} uncut")
        if heard and self.story.same:
            last = max((one for one in heard if self._is_own(one)), key=lambda one: len(one.asked))
            calls = [
                view.id
                for m in transcript_of(after).messages[:-1]
                if isinstance(m, AssistantMessage)
                for view in m.tool_calls()
            ]
            self._expect(_RESULTS.findall(last.asked) == calls, "the last question has the results in another order")

    def _is_own(self, one: Heard) -> bool:
        """Whether it is this session's question, not a sub-agent's."""
        return f"You are {self.story.system or self.place.story}." in one.asked

    def _effects(self, after: list[Entry]) -> None:
        """What may be done once was done once at the most; what was done is in the journal as done."""
        ran = [one for one in ledger_of(self.place).read() if self.story.counted(one.name)]
        times = Counter(one.key for one in ran)
        started = {(at, act.call_index): act for at, act in _by_reply(after, CallStarted)}
        for place, act in started.items():
            most = 3 if act.effect in AGAIN else 1  # some were killed once before
            self._expect(
                times[act.idempotency_key] <= most,
                f"{act.name} ({act.effect}) took effect {times[act.idempotency_key]} times",
            )
            done = [
                r for at, r in _by_reply(after, CallFinished) if (at, r.call_index) == place and r.outcome == "done"
            ]
            if done and act.name in {one.name for one in ran}:
                self._expect(times[act.idempotency_key] >= 1, f"{act.name} is done, and never took effect")
        repeated = [key for key, n in Counter((one.key, one.attempt) for one in ran).items() if n > 1]
        self._expect(not repeated, f"an attempt was made twice: {repeated}")
        marks = self.place.folder / "root" / "ran"
        self._expect(not marks.exists() or len(marks.read_text()) <= 1, "shell ran twice")

    def _differences(self, after: list[Entry], open_then: dict[tuple[int, int], CallStarted]) -> Iterator[str]:
        """Say where the conversation is not the one of the run that nobody killed."""
        ours, theirs = _messages(after), _messages(self.uncut.entries)
        cut = {place for place, act in open_then.items() if act.effect not in AGAIN}
        if len(ours) != len(theirs):
            yield f"{len(ours)} messages, {len(theirs)} in the run that nobody killed"
        spoilt = not self.story.bytes
        replies = iter(_calls_by_reply(after))
        at = 0
        for number, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
            at = next(replies) if isinstance(mine, AssistantMessage) else at
            places = {ordinal for reply, ordinal in cut if reply == at and isinstance(mine, ToolResults)}
            spoilt = spoilt or bool(places)
            if _shape(mine, places) != _shape(other, places):
                yield f"message {number} is {_shape(mine, places)}, it was {_shape(other, places)}"
            elif not spoilt and not self._steered(after) and dump_message(mine) != dump_message(other):
                yield f"message {number} differs in its bytes"

    def _steered(self, after: list[Entry]) -> bool:
        """Whether something that was said meanwhile died with the process: the tokens behind it are others."""
        return _said_meanwhile(after) != _said_meanwhile(self.uncut.entries)

    async def _children(self, store: SqlStore) -> None:
        """A sub-agent's session is as whole as its caller's."""
        for linked in _acts(await entries_of(store, self.id), SubSessionLinked):
            entries = await entries_of(store, linked.session)
            results = Counter((at, act.call_index) for at, act in _by_reply(entries, CallFinished))
            calls = Counter((at, ordinal) for at, n in _calls_by_reply(entries).items() for ordinal in range(n))
            self._expect(bool(entries) and results == calls, f"the sub-agent has {results} for {calls}")
            for fault in await store.verify(linked.session):
                self._expect(False, f"verify: {fault}")


# --- reading a journal ------------------------------------------------------------------------------------------------


def _acts(entries: Sequence[Entry], kind: type) -> list[Any]:
    return [entry.payload for entry in entries if isinstance(entry.payload, kind)]


def _by_reply(entries: Sequence[Entry], kind: type) -> list[tuple[int, Any]]:
    """Return the acts of a kind, each with the entry of the reply that it belongs to."""
    at = 0
    found = []
    for entry in entries:
        at = entry.seq if isinstance(entry.payload, ReplyReceived) else at
        if isinstance(entry.payload, kind):
            found.append((at, entry.payload))
    return found


def _calls_by_reply(entries: Sequence[Entry]) -> dict[int, int]:
    return {e.seq: len(list(e.payload.message.tool_calls())) for e in entries if isinstance(e.payload, ReplyReceived)}


def _open(entries: Sequence[Entry]) -> dict[tuple[int, int], CallStarted]:
    """Return the calls that were started and have not returned."""
    returned = {(at, act.call_index) for at, act in _by_reply(entries, CallFinished)}
    started = {(at, act.call_index): act for at, act in _by_reply(entries, CallStarted)}
    return {place: act for place, act in started.items() if place not in returned}


def _last(entries: Sequence[Entry]) -> AssistantMessage:
    return _acts(entries, ReplyReceived)[-1].message


def _messages(entries: Sequence[Entry]) -> list[Message]:
    """The conversation without what was said meanwhile, which may have died with the process."""
    return [message for message in transcript_of(entries).messages if not _is_meanwhile(message)]


def _is_meanwhile(message: Message) -> bool:
    return isinstance(message, UserMessage) and str(message) == MEANWHILE


def _said_meanwhile(entries: Sequence[Entry]) -> int:
    return sum(_is_meanwhile(message) for message in transcript_of(entries).messages)


def _shape(message: Message, but: set[int]) -> Any:
    """What a message says, without tokens and ids; and without the results of some calls."""
    if isinstance(message, AssistantMessage):
        return [[getattr(b, name, "") for name in ("text", "name", "args")] for b in message.blocks]
    if isinstance(message, ToolResults):
        return ["" if at in but else (r.content, r.is_error) for at, r in enumerate(message.results)]
    return str(message)
