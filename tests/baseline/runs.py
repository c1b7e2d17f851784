"""Scripted agent runs: every scenario in every dialect, with entries, events and transcripts as masked text."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from baseline import surface
from baseline.plain_form import Masker, Names, canonical, digest
from baseline.replies import DIALECTS, Call, Dialect, Say, Think

__all__ = ["NAMES", "SCENARIOS", "play", "record"]

_NUMBERED = {
    **dict.fromkeys(("id", "call", "tool_use_id", "response_id", "request_id"), "id"),
    **{name: name for name in ("key", "session", "digest", "prefix", "account")},
    "session_id": "session",
}
"""Fields with an id, by the prefix of its number."""
_MASKED = ("pid", "host", "delay", "cost", "encoder")
"""Fields whose values depend on the machine, randomness, prices, or a version."""
_LONG = 100
"""Longer strings are shortened to their start and a digest."""
_LINE = {"entry": 600, "loss": 600}
"""The maximum length of a line. Events and messages repeat the blocks of an entry."""
_SCHEMA = {
    "type": "object",
    "properties": {"sum": {"type": "integer"}},
    "required": ["sum"],
    "additionalProperties": False,
}
ADD = Call("add", '{"a": 1, "b": 2}')
PAY = Call("pay", '{"amount": 5}')


# --- tools ------------------------------------------------------------------------------------------------------------


@surface.tool(effect="pure")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@surface.tool(effect="once")
async def note(text: str) -> str:
    """Write a note."""
    return f"noted {text}"


@surface.tool
async def fail() -> str:
    """Fail."""
    raise ValueError("it failed")


@surface.tool(approval=True)
async def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


# --- one run ----------------------------------------------------------------------------------------------------------


class Stage:
    """One run: its remaining replies, its agents, and the recorded text."""

    def __init__(self, dialect: Dialect, names: Names, store: Path) -> None:
        self.dialect = dialect
        self.other = DIALECTS[(DIALECTS.index(dialect) + 1) % len(DIALECTS)]
        self.names = names
        self.lines: list[str] = []
        self._store = store
        self._masker = Masker(_NUMBERED, _MASKED)
        self._replies: list[Any] = []
        self._events: list[Any] = []
        self._number = 0
        self._agents: list[Any] = []

    # --- the script ---

    def script(self, *replies: Sequence[Any], dialect: Dialect | None = None) -> None:
        """Add replies, each a sequence of parts."""
        for parts in replies:
            self._number += 1
            self._replies.append(surface.stream_reply((dialect or self.dialect).reply(self._number, *parts)))

    def script_error(self, status: int, message: str) -> None:
        """Add an HTTP error."""
        error = {"message": message, "type": "overloaded_error", "code": status, "status": "UNAVAILABLE"}
        self._replies.append(surface.json_reply(status, {"type": "error", "error": error}))

    def script_cut(self, *parts: Any) -> None:
        """Add a reply whose connection ends in the middle."""
        self._number += 1
        body = self.dialect.reply(self._number, *parts)
        self._replies.append(surface.stream_reply(body[: body.index(b"data:", len(body) // 2)], is_cut=True))

    def _answer(self, request: Any) -> Any:
        if not self._replies:
            return surface.json_reply(400, {"error": {"message": "the script has ended"}})
        return self._replies.pop(0)

    # --- the session ---

    def agent(self, *tools: Any, **options: Any) -> Any:
        """Make an agent on this run's store; all events of its sessions are recorded."""
        transport = surface.scripted_transport(self._answer)
        model = options.pop("model", self.dialect.model)
        made = surface.make_agent(model, transport, self._store, tools, listeners=[self._events.append], **options)
        self._agents.append(made)
        return made

    async def do(self, what: str, work: Awaitable[Any]) -> None:
        """Await a coroutine; record the events, and the result or the class of the error."""
        self.lines.append(f"do {what}")
        try:
            result = await work
        except surface.TenutoError as exc:
            end = f"raises {self.names.class_name(type(exc))}"
        else:
            end = f"returns {self._shown(getattr(result, 'text', None))}"
        for event in self._events:
            if not self.names.is_ignored(self.names.tag(event)):
                self._value("event", event)
        self._events.clear()
        self.lines.append(end)

    async def keep(self, session: Any, title: str = "session") -> None:
        """Record the entries, the transcript and the state of a session."""
        for entry in await session.entries():
            self._value("entry", surface.payload(entry))
        for message in session.transcript:
            self._value("message", message)
        status = self.names.word("Session.status", session.status)
        self.lines.append(f"state {title} {status} model={session.model} pending={len(session.pending)}")

    def note(self, word: str, values: Sequence[Any]) -> None:
        """Record some values."""
        for value in values:
            self._value(word, value)

    async def close(self) -> None:
        """Close every agent."""
        for agent in reversed(self._agents):
            await agent.close()
        self.lines.append(f"replies left {len(self._replies)}")

    # --- text ---

    def _value(self, word: str, value: Any) -> None:
        tag, fields = self.names.tagged(value)
        self.lines.append(f"{word} {tag} {self._shown(self._masker.mask(fields), _LINE.get(word, 150))}")

    def _shown(self, plain: Any, length: int = 150) -> str:
        text = self.names.text(canonical(_shortened(plain)))
        return text if len(text) <= length else f"{text[: length // 2]}… {digest(text)}"


def _shortened(plain: Any) -> Any:
    if isinstance(plain, str):
        return plain if len(plain) <= _LONG else f"{plain[:40]}… {digest(plain)}"
    if isinstance(plain, list):
        return [_shortened(item) for item in plain]
    if isinstance(plain, dict):
        return {name: _shortened(value) for name, value in plain.items()}
    return plain


# --- scenarios --------------------------------------------------------------------------------------------------------


async def structured(stage: Stage) -> None:
    """Reasoning, then an answer of a schema; the conversation continues."""
    stage.script([Think("Let me add."), Say('{"sum": 3}')], [Say('{"sum": 4}')])
    session = stage.agent(system="Be brief.", **surface.output_schema(_SCHEMA)).session("one")
    await stage.do("send", session.send("What is 1 + 2?"))
    await stage.do("send", session.send("And 1 + 3?"))
    await stage.keep(session)


async def tools(stage: Stage) -> None:
    """Two turns with calls, the second after a tool that fails."""
    stage.script([Think("First add."), Say("Adding."), ADD], [Call("fail", "{}")], [Think("Hm."), Say("It is 3.")])
    session = stage.agent(add, fail).session("one")
    await stage.do("send", session.send("Add 1 and 2."))
    await stage.keep(session)


async def parallel(stage: Stage) -> None:
    """Five calls in one reply: two good ones, an unknown tool, arguments that do not match, arguments that are not JSON."""
    bad = (Call("missing", "{}"), Call("add", '{"a": "x"}'), Call("add", '{"a": 1, '))
    stage.script([Say("All at once."), ADD, Call("note", '{"text": "n"}'), *bad], [Say("Done.")])
    session = stage.agent(add, note).session("one")
    await stage.do("send", session.send("Do five things."))
    await stage.keep(session)


async def approve(stage: Stage) -> None:
    """A call that waits is approved after the session was opened again; the next one by a function."""
    stage.script([Think("I pay."), PAY, ADD], [Say("Paid.")], [PAY], [Say("Paid again.")])
    first = stage.agent(pay, add).session("one")
    await stage.do("send", first.send("Pay 5."))
    await stage.keep(first)
    await first.close()
    again = await stage.agent(pay, add).resume("one")
    await stage.do("approve", again.approve())
    await again.close()
    allowing = await stage.agent(pay, add, approve=lambda call: True).resume("one")
    await stage.do("send", allowing.send("Pay again."))
    await stage.keep(allowing)


async def deny(stage: Stage) -> None:
    """One of two calls that wait is denied, the other one approved."""
    stage.script([PAY, Call("pay", '{"amount": 6}')], [Say("One paid.")], [PAY], [Say("Well.")])
    session = stage.agent(pay).session("one")
    await stage.do("send", session.send("Pay 5 and 6."))
    await stage.do("deny", session.deny(session.pending[0]))
    await stage.do("approve", session.approve(*session.pending))
    await stage.do("send", session.send("Once more."))
    await stage.do("send", session.send("Forget it."))
    await stage.keep(session)


async def steer(stage: Stage) -> None:
    """A message while a tool works is sent at the turn boundary; one while nothing runs, at the next."""
    stage.script([Call("wait", "{}")], [Say("I heard.")], [Say("Going on.")], [Say("Briefly.")])
    handle: list[Any] = []

    @surface.tool
    async def wait() -> str:
        """Wait for the user."""
        await handle[0].steer("Use Celsius.")
        return "waited"

    session = stage.agent(wait).session("one")
    handle.append(session)
    await stage.do("send", session.send("Wait."))
    await session.steer("And be brief.")
    await stage.do("send", session.send("Go on."))
    await stage.keep(session)


async def cancel(stage: Stage) -> None:
    """A run is cancelled while one of its tools works; the session continues."""
    stage.script([ADD, Call("hang", "{}")], [Say("Never mind.")])
    handle: list[Any] = []

    @surface.tool
    async def hang() -> str:
        """Hang."""
        handle[0].cancel_local()
        await asyncio.Event().wait()
        return "never"

    session = stage.agent(add, hang).session("one")
    handle.append(session)
    await stage.do("send", session.send("Hang."))
    await stage.keep(session, "cancelled")
    await stage.do("send", session.send("Why?"))
    await stage.keep(session)


async def kill(stage: Stage, after: str) -> None:
    """A process is killed after the first entry of a kind; another one resumes the session."""
    replies = ([Think("Two things."), ADD, Call("note", '{"text": "n"}')], [Say("Both done.")])
    stage.script(*replies)
    agent = stage.agent(add, note)
    session = agent.session("whole")
    await stage.do("send", session.send("Do two things."))
    kinds = [stage.names.tag(surface.payload(entry)) for entry in await session.entries()]
    await surface.fork_store(agent, "whole", kinds.index(after) + 1, "killed")
    stage.script(*replies[0 if after == "asked" else 1 :])
    resumed = await stage.agent(add, note).resume("killed")
    await stage.keep(resumed, "killed")
    await stage.do("continue", surface.continue_run(resumed))
    await stage.keep(resumed, "resumed")


async def fork(stage: Stage) -> None:
    """A session is forked before its last exchange; both continue."""
    stage.script([Think("Add."), ADD], [Say("3.")], [Say("Bergen.")], [Say("Oslo.")], [Say("Still Bergen.")])
    session = stage.agent(add).session("one")
    await stage.do("send", session.send("1 + 2?"))
    await stage.do("send", session.send("A city?"))
    branch = await session.fork(4)
    await stage.do("send in the fork", branch.send("Another city?"))
    await stage.do("send", session.send("And now?"))
    await stage.keep(branch, "fork")
    await stage.keep(session)


async def handover(stage: Stage) -> None:
    """A session moves to a model of the next dialect and back."""
    stage.script([Think("Add."), Say("Adding."), ADD], [Think("Easy."), Say("3.")])
    stage.script([Think("Checking."), ADD], [Say("Right.")], dialect=stage.other)
    stage.script([Say("Thanks.")])
    session = stage.agent(add).session("one")
    await stage.do("send", session.send("1 + 2?"))
    stage.note("loss", await session.handover(stage.other.model))
    await stage.do("send", session.send("Check it."))
    stage.note("loss", await session.handover(stage.dialect.model))
    await stage.do("send", session.send("Say thanks."))
    await stage.keep(session)


async def sub_agent(stage: Stage) -> None:
    """A sub-agent of the next dialect answers a call, with a tool of its own; then one whose call waits for approval."""
    ask = Call("helper", '{"prompt": "Please add."}')
    stage.script([Say("I ask."), ask])
    stage.script([Think("Add."), ADD], [Say("It is 3.")], dialect=stage.other)
    stage.script([Say("The helper says 3.")], [ask])
    stage.script([PAY], dialect=stage.other)
    stage.script([Say("Paid.")], dialect=stage.other)
    stage.script([Say("The helper paid.")])
    helper = surface.sub_agent(stage.other.model, "helper", [add, pay])
    session = stage.agent(helper).session("one")
    await stage.do("send", session.send("Ask the helper."))
    await stage.do("send", session.send("Ask again."))
    await stage.do("approve", session.approve())
    await stage.keep(session)


async def limits(stage: Stage) -> None:
    """Runs that end at a limit of turns, of calls and of tokens."""
    for number, values in enumerate(({"turns": 1}, {"tool_calls": 1}, {"tokens": 30}), 1):
        stage.script([Say("Twice."), ADD, Call("add", '{"a": 3, "b": 4}')])
        session = stage.agent(add, limits=surface.limits(**values)).session(f"limited-{number}")
        await stage.do(f"send with {canonical(values)}", session.send("Add twice."))
        await stage.keep(session, canonical(values))


async def retry(stage: Stage) -> None:
    """An attempt is refused, one is cut, the third succeeds; then the model stays unavailable, and a fallback answers."""
    stage.script_error(429, "slow down")
    stage.script_cut(Think("Half a th"), Say("ought"))
    stage.script([Think("A whole thought."), ADD])
    for _ in range(3):
        stage.script_error(503, "overloaded")
    stage.script([Think("I take over."), Say("3.")], dialect=stage.other)
    session = stage.agent(add, fallback=[stage.other.model]).session("one")
    await stage.do("send", session.send("1 + 2?"))
    stage.script_error(400, "the request is wrong")
    await stage.do("send", session.send("More."))
    await stage.keep(session)


SCENARIOS: dict[str, Callable[[Stage], Awaitable[None]]] = {
    "structured": structured,
    "tools": tools,
    "parallel": parallel,
    "approve": approve,
    "deny": deny,
    "steer": steer,
    "cancel": cancel,
    "kill after request": partial(kill, after="asked"),
    "kill after call": partial(kill, after="started"),
    "kill after result": partial(kill, after="returned"),
    "fork": fork,
    "handover": handover,
    "sub-agent": sub_agent,
    "limits": limits,
    "retry": retry,
}
NAMES = tuple(f"{scenario} / {dialect.name}" for scenario in SCENARIOS for dialect in DIALECTS)


def play(name: str, names: Names | None = None) -> list[str]:
    """Play one run; return its lines."""
    scenario, _, dialect = name.partition(" / ")
    speaker = next(one for one in DIALECTS if one.name == dialect)
    inherited = {name: os.environ[name] for name in ("PATH", "TMPDIR", "SYSTEMROOT") if name in os.environ}
    with (
        tempfile.TemporaryDirectory() as directory,
        patch.dict(os.environ, inherited, clear=True),
    ):  # no keys, no settings
        return asyncio.run(_play(SCENARIOS[scenario], speaker, names or Names(), Path(directory)))


async def _play(
    scenario: Callable[[Stage], Awaitable[None]], dialect: Dialect, names: Names, directory: Path
) -> list[str]:
    stage = Stage(dialect, names, directory / "sessions.db")
    try:
        await asyncio.wait_for(scenario(stage), 60)
    except Exception as exc:  # an exception is a difference of this run only
        stage.lines.append(f"fails {type(exc).__name__}: {names.text(str(exc))}")
    finally:
        await stage.close()
    return stage.lines


def record(jobs: int = 1) -> dict[str, list[str]]:
    """Play every run; return their lines by name."""
    if jobs <= 1:
        return {name: play(name) for name in NAMES}
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as workers:
        return dict(zip(NAMES, workers.map(play, NAMES), strict=True))
