"""Check the session of a killed process by continuing it in this one.

The end must be that of a run without a kill, except for at most one repeated request, and an `interrupted` result for each
call of a `once` tool that was started and had not returned. The effects are read from the ledger of the tools, the
requests from the records of the simulator.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from crash.agent_tools import Effect
from crash.experiments import Experiment
from crash.provider import Exchange, SimulatorProcess
from crash.scenarios import PROMPT, SCENARIOS, STEERED, finish_run, ledger_of, session_of
from tenuto.agent.session import AsyncSession
from tenuto.core.journal import (
    CallFinished,
    CallStarted,
    Compacted,
    CompactionRequested,
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


class Reference(NamedTuple):
    """The result of a run without a kill."""

    entries: list[Entry]
    request: int


async def entries_of(store: SqlStore, session: str) -> list[Entry]:
    """Return the entries of a session; none if it does not exist."""
    try:
        return await store.read(session)
    except SessionNotFound:
        return []


class AgentCheck:
    """Check one experiment. `wrong` has the violations."""

    def __init__(self, experiment: Experiment, provider: SimulatorProcess, reference: Reference) -> None:
        self.experiment = experiment
        self.provider = provider
        self.reference = reference
        self.scenario = SCENARIOS[experiment.scenario]
        self.id = session_of(experiment)
        self.wrong: list[str] = []

    def _expect(self, true: bool, what: str) -> None:
        if not true:
            self.wrong.append(what)

    async def look(self, store: SqlStore) -> None:
        """Compare the entries with the effects, continue, compare again. Any error is a violation."""
        try:
            before = await entries_of(store, self.id)
            self._was_written_first(before, ledger_of(self.experiment).read())
            if before:
                await self._verify(store)
            async with self.scenario.agent(self.experiment, store, True) as agent:
                session = await agent.resume(self.id) if before else agent.session(self.id)
                if not before:
                    await session.send(PROMPT)
                await finish_run(session)
                await self._ended(session, before, await entries_of(store, self.id))
                await agent.client.close()
            await self._verify(store)
            await self._children(store)
        except (TenutoError, AssertionError) as exc:
            self.wrong.append(f"{type(exc).__name__}: {exc}")

    async def _verify(self, store: SqlStore) -> None:
        for fault in await store.verify(self.id if self.experiment.prefix else None):
            self._expect(False, f"verify: {fault}")

    def _was_written_first(self, before: list[Entry], ran: list[Effect]) -> None:
        """Check that each effect was preceded by its entry."""
        begun = {(act.idempotency_key, act.attempt) for act in _payloads(before, CallStarted)}
        for one in ran:
            if self.scenario.is_counted(one.name):
                self._expect((one.key, one.attempt) in begun, f"{one}: took effect, and had not been written down")

    # --- the end ---

    async def _ended(self, session: AsyncSession, before: list[Entry], after: list[Entry]) -> None:
        self._expect([e.body for e in after[: len(before)]] == [e.body for e in before], "entries changed")
        open_then = _open(before)
        self._calls(before, after, open_then)
        self._questions(before, after)
        self._effects(after)
        self._expect(session.status == "completed", f"in the end it is {session.status}")
        await self._summaries(session, after)
        self._expect(not session.has_pending_work and await session.continue_() is None, "something is owed in the end")
        if self.scenario.same:
            self._expect(session.text == str(_last(self.reference.entries)), f"in the end it says {session.text!r}")
            for what in self._differences(after, open_then):
                self._expect(False, what)

    async def _summaries(self, session: AsyncSession, after: list[Entry]) -> None:
        """Check that at most one summary was repeated, and that each request is written again with the same bytes."""
        requests, reference = (
            _payloads(after, CompactionRequested),
            _payloads(self.reference.entries, CompactionRequested),
        )
        if not self.scenario.compacts:
            return
        self._expect(len(reference) == 1, f"{len(reference)} summaries without a kill")
        self._expect(len(requests) <= len(reference) + 1, f"{len(requests)} summaries, {len(reference)} without a kill")
        if self.scenario.in_flight == 1:  # one in the background may be lost after the last reply
            self._expect(bool(_payloads(after, Compacted)), "the session was not compacted")
        report = await session.audit()
        self._expect(report.clean, f"the audit says: {report}")

    def _calls(self, before: list[Entry], after: list[Entry], open_then: dict[tuple[int, int], CallStarted]) -> None:
        """Check that each call has one result, and that unknown outcomes are `interrupted`."""
        results = Counter((at, act.call_index) for at, act in _by_reply(after, CallFinished))
        calls = [(at, ordinal) for at, n in _calls_by_reply(after).items() for ordinal in range(n)]
        self._expect(results == Counter(calls), f"results for {sorted(results.elements())}, calls {calls}")
        unknown = {experiment for experiment, act in open_then.items() if act.effect not in AGAIN}
        interrupted = {
            (at, act.call_index): act for at, act in _by_reply(after, CallFinished) if act.outcome == "interrupted"
        }
        unknown |= {(at, act.call_index) for at, act in _by_reply(before, CallFinished) if act.outcome == "interrupted"}
        if self.scenario.same:
            self._expect(
                interrupted.keys() == unknown, f"interrupted: {sorted(interrupted)}, expected: {sorted(unknown)}"
            )
        for act in interrupted.values():
            honest = act.result.is_error and "may or may not have taken effect" in str(act.result.content)
            self._expect(honest, f"the result of an interrupted call is {act.result}")
        messages = transcript_of(after).messages
        for message, follows in pairwise(messages):
            if isinstance(message, AssistantMessage) and message.has_tool_calls():
                ids = [view.id for view in message.tool_calls()]
                options = [result.tool_use_id for result in follows.results] if isinstance(follows, ToolResults) else []
                self._expect(ids == options, f"calls {ids}, results {options}")

    def _questions(self, before: list[Entry], after: list[Entry]) -> None:
        """Check that each request was recorded before, at most one was repeated, and none was refused."""
        exchanges = self.provider.exchanges(self.experiment.directory.name)
        for one in exchanges:
            self._expect(not one.refused, f"refused: {one.refused}")
        request = Counter(act.digest for act in _payloads(after, RequestStarted | CompactionRequested))
        more = Counter(one.digest for one in exchanges if self._is_own_request(one)) - request
        self._expect(not more, f"{more.total()} requests are not in the journal")
        again = len(_payloads(after, RequestStarted)) - len(_payloads(self.reference.entries, RequestStarted))
        left = [e.payload for e in before if isinstance(e.payload, RequestStarted | ReplyReceived | RequestFailed)][-1:]
        expected = 1 if left and isinstance(left[0], RequestStarted) else 0
        if self.scenario.same:
            exact = again == expected if self.scenario.bytes else again <= expected
            self._expect(exact, f"{again} requests more than without a kill; expected {expected}")
            self._expect(
                len(exchanges) <= self.reference.request + self.scenario.in_flight,
                f"{len(exchanges)} requests, {self.reference.request} without a kill",
            )
        if exchanges and self.scenario.same and not _payloads(after, Compacted):
            last = max((one for one in exchanges if self._is_own_request(one)), key=lambda one: len(one.request))
            calls = [
                view.id
                for m in transcript_of(after).messages[:-1]
                if isinstance(m, AssistantMessage)
                for view in m.tool_calls()
            ]
            self._expect(_RESULTS.findall(last.request) == calls, "the last request has the results in another order")

    def _is_own_request(self, one: Exchange) -> bool:
        """Return True for a request of this session, False for one of a sub-agent."""
        return f"You are {self.scenario.system or self.experiment.scenario}." in one.request

    def _effects(self, after: list[Entry]) -> None:
        """Check that `once` tools took effect at most once and that effects are in the journal."""
        ran = [one for one in ledger_of(self.experiment).read() if self.scenario.is_counted(one.name)]
        times = Counter(one.key for one in ran)
        started = {(at, act.call_index): act for at, act in _by_reply(after, CallStarted)}
        for experiment, act in started.items():
            most = 3 if act.effect in AGAIN else 1  # some scenarios were killed before
            self._expect(
                times[act.idempotency_key] <= most,
                f"{act.name} ({act.effect}) took effect {times[act.idempotency_key]} times",
            )
            done = [
                r
                for at, r in _by_reply(after, CallFinished)
                if (at, r.call_index) == experiment and r.outcome == "done"
            ]
            if done and act.name in {one.name for one in ran}:
                self._expect(times[act.idempotency_key] >= 1, f"{act.name} is done, and never took effect")
        repeated = [key for key, n in Counter((one.key, one.attempt) for one in ran).items() if n > 1]
        self._expect(not repeated, f"an attempt was made twice: {repeated}")
        marks = self.experiment.directory / "root" / "ran"
        self._expect(not marks.exists() or len(marks.read_text()) <= 1, "shell ran twice")

    def _differences(self, after: list[Entry], open_then: dict[tuple[int, int], CallStarted]) -> Iterator[str]:
        """Yield the differences from the conversation of a run without a kill."""
        ours, theirs = _messages(after), _messages(self.reference.entries)
        cut = {experiment for experiment, act in open_then.items() if act.effect not in AGAIN}
        if len(ours) != len(theirs):
            yield f"{len(ours)} messages, {len(theirs)} in the run without a kill"
        spoilt = not self.scenario.bytes
        replies = iter(_calls_by_reply(after))
        at = 0
        for number, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
            at = next(replies) if isinstance(mine, AssistantMessage) else at
            experiments = {ordinal for reply, ordinal in cut if reply == at and isinstance(mine, ToolResults)}
            spoilt = spoilt or bool(experiments)
            if _shape(mine, experiments) != _shape(other, experiments):
                yield f"message {number} is {_shape(mine, experiments)}, it was {_shape(other, experiments)}"
            elif not spoilt and not self._steered(after) and dump_message(mine) != dump_message(other):
                yield f"message {number} differs in its bytes"

    def _steered(self, after: list[Entry]) -> bool:
        """Return whether a steered message was lost with the process: later tokens differ then."""
        return _count_steered(after) != _count_steered(self.reference.entries)

    async def _children(self, store: SqlStore) -> None:
        """Check the sessions of sub-agents."""
        for linked in _payloads(await entries_of(store, self.id), SubSessionLinked):
            entries = await entries_of(store, linked.session)
            results = Counter((at, act.call_index) for at, act in _by_reply(entries, CallFinished))
            calls = Counter((at, ordinal) for at, n in _calls_by_reply(entries).items() for ordinal in range(n))
            self._expect(bool(entries) and results == calls, f"the sub-agent has {results} for {calls}")
            for fault in await store.verify(linked.session):
                self._expect(False, f"verify: {fault}")


# --- reading a journal ------------------------------------------------------------------------------------------------


def _payloads(entries: Sequence[Entry], kind: Any) -> list[Any]:
    return [entry.payload for entry in entries if isinstance(entry.payload, kind)]


def _by_reply(entries: Sequence[Entry], kind: type) -> list[tuple[int, Any]]:
    """Return the payloads of a kind, each with the entry of its reply."""
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
    """Return the calls that were started and have no result."""
    returned = {(at, act.call_index) for at, act in _by_reply(entries, CallFinished)}
    started = {(at, act.call_index): act for at, act in _by_reply(entries, CallStarted)}
    return {experiment: act for experiment, act in started.items() if experiment not in returned}


def _last(entries: Sequence[Entry]) -> AssistantMessage:
    return _payloads(entries, ReplyReceived)[-1].message


def _messages(entries: Sequence[Entry]) -> list[Message]:
    """Return the conversation without steered messages, which may be lost with the process."""
    return [message for message in transcript_of(entries).messages if not _is_steered(message)]


def _is_steered(message: Message) -> bool:
    return isinstance(message, UserMessage) and str(message) == STEERED


def _count_steered(entries: Sequence[Entry]) -> int:
    return sum(_is_steered(message) for message in transcript_of(entries).messages)


def _shape(message: Message, but: set[int]) -> Any:
    """Return the content of a message without tokens and ids, and without the results of some calls."""
    if isinstance(message, AssistantMessage):
        return [[getattr(b, name, "") for name in ("text", "name", "args")] for b in message.blocks]
    if isinstance(message, ToolResults):
        return ["" if at in but else (r.content, r.is_error) for at, r in enumerate(message.results)]
    return str(message)
