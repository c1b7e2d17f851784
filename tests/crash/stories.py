"""What the agent is at when its process is killed, and how another process goes on with it.

`plain` is a run of two turns with tools, three of which run at one moment. The others come to further lines: `hands` by the
door that does not await, with approvals and something said meanwhile; `hard` with a sub-agent, a call that waits, calls
that cannot be run, and a provider that denies and fails; `files` with the tools of the command line; `cut` is cancelled;
`again` was killed once before, while its tools ran, and is being gone on with.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from crash.agent_tools import Ledger, Meeting, made
from crash.places import Place
from crash.provider import TAG
from crash.tracing import die, stop
from tenuto import Agent, Limits
from tenuto.agent.agent import AsyncAgent
from tenuto.agent.events import ToolFinished
from tenuto.agent.session import AsyncSession
from tenuto.client.client import AsyncClient
from tenuto.client.middleware.retry import Retry
from tenuto.errors import RunCancelled
from tenuto.sim.script import Script
from tenuto.store.sql_store import SqlStore
from tenuto.testing import call, deny, drip, fail, say, think, turn
from tenuto.tools.builtin import builtin_tools
from tenuto.tools.execution import ToolContext

PROMPT = "Do it."
MEANWHILE = "And mind the step."
MODEL = "sim/anthropic"

SCRIPTS = (
    Script(
        (
            turn(
                *(drip(150), think(["One ", "thing ", "at a time."]), say(["I ", "begin."])),
                *(call("look", {"turn": 1}), call("pay", {"turn": 1}), call("note", {"turn": 1})),
            ),
            turn(think("Go on."), call("pay", {"turn": 2}), call("send", {"turn": 2})),
            turn(drip(100), think("Enough."), say(["It ", "is ", "done."])),
        ),
        "plain",
    ),
    Script(
        (
            turn(
                *(think("Who may?"), call("look", {"turn": 1})),
                *(call("pay", {"turn": 1}), call("drop", {"turn": 1}), call("drop", {"turn": 0})),
            ),
            turn(call("send", {"turn": 2}), call("pay", {"turn": 2})),
            turn(think("Enough."), say("It is done.")),
        ),
        "hands",
    ),
    Script(
        (
            turn(deny(503)),
            turn(
                *(think("Somebody else knows."), call("helper", {"prompt": "Help me."}), call("nothing", {})),
                *(call("look", {"turn": "one"}), call("pay", '{"turn": 1')),
            ),
            turn(think("Now."), fail(), call("pay", {"turn": 2}), call("stumble", {"turn": 2})),
            turn(say("It is done.")),
        ),
        "hard",
    ),
    Script((turn(think("I look."), call("look", {"turn": 3})), turn(say("Seven."))), "second"),
    Script(
        (
            turn(
                *(think("Files."), call("write_file", {"path": "a.txt", "content": "one\ntwo\n"})),
                *(
                    call("read_file", {"path": "fixed.txt"}),
                    call("shell", {"command": "printf x >> ran; cat fixed.txt"}),
                ),
            ),
            turn(
                *(call("edit_file", {"path": "a.txt", "old": "two", "new": "three"}),),
                *(call("search_files", {"text": "fixed", "path": "sub"}), call("list_files", {"path": "sub"})),
            ),
            turn(say("It is done.")),
        ),
        "files",
    ),
    Script(
        (turn(call("look", {"turn": 1}), call("pay", {"turn": 1}), call("note", {"turn": 1})), turn(say("Enough."))),
        "cut",
    ),
)


class Story(NamedTuple):
    """How a run is begun, and how it is gone on with in another process.

    `same`: the end is the same, whenever it was killed. `bytes`: so are the tokens, as long as no call was interrupted.
    """

    begin: Callable[[Place], None]
    agent: Callable[[Place, SqlStore, bool], AsyncAgent]
    same: bool = True
    bytes: bool = True
    system: str = ""

    def counted(self, name: str) -> bool:
        """Whether a tool's effects are counted in this session: a sub-agent's are its own."""
        return not (self.agent is _hard and name == "look")


def session_of(place: Place) -> str:
    """Return the id of the session of a place."""
    return f"{place.before}run"


def ledger_of(place: Place) -> Ledger:
    """Return what the tools of a place did."""
    return Ledger(place.folder / "ledger")


def _asking(place: Place, story: str, store: Any) -> dict[str, Any]:
    """What every agent here is told."""
    return {
        "system": f"You are {story}.",
        "store": store,
        "extra_headers": {TAG: place.folder.name},
        "retry": Retry(3, base=0.0),
    }


async def finished(session: AsyncSession) -> None:
    """Do what is owed, and give one's word where it is asked for."""
    while session.has_pending_work:
        await session.continue_()
        if session.pending:
            await session.approve()


def _awaited(story: str) -> Callable[[Place], None]:
    async def begun(place: Place) -> None:
        async with place.whole() as store, STORIES[story].agent(place, store, False) as agent:
            session = agent.session(session_of(place))
            await session.send(PROMPT)
            await finished(session)
            await agent.client.close()

    return lambda place: asyncio.run(begun(place))


# --- the stories ------------------------------------------------------------------------------------------------------


def _plain(place: Place, store: SqlStore, goes_on: bool) -> AsyncAgent:
    tools = made(ledger_of(place), Meeting(0 if goes_on else 3), lambda: None)
    return AsyncAgent(MODEL, tools=tools, **_asking(place, "plain", store))


def _word(view: Any) -> bool | str:
    return view.name == "pay" or "not today"


def _hands(place: Place, store: SqlStore, goes_on: bool) -> AsyncAgent:
    tools = made(ledger_of(place), Meeting(), lambda: None, approval=True)
    return AsyncAgent(MODEL, tools=tools, approve=_word, **_asking(place, "hands", store))


def _by_hand(place: Place) -> None:
    """The same by the door that does not await; something is said while `look` runs."""
    sessions: list[Any] = []
    tools = made(ledger_of(place), Meeting(), lambda: sessions[0].steer(MEANWHILE), approval=True)
    with Agent(MODEL, tools=tools, approve=_word, **_asking(place, "hands", place.address())) as agent:
        with agent.session(session_of(place)) as session:
            sessions.append(session)
            heard: list[Any] = []
            forget = session.on_event(heard.append)
            with session.stream(PROMPT) as run:
                told = list(run)
            forget()
            assert len(told) == len(heard)
            assert (session.status, session.text) == ("completed", run.reply.text)
            assert (session.has_pending_work, session.pending, session.continue_()) == (False, (), None)
            assert len(session.entries()) > len(session.transcript.messages)
        again = agent.resume(session_of(place))
        assert again.usage == session.usage


def _hard(place: Place, store: SqlStore, goes_on: bool) -> AsyncAgent:
    client = AsyncClient(middleware=[], keys={"sim": place.folder.name})  # each is denied and failed for itself
    asking = _asking(place, "hard", store)
    look, _, pay, *_, stumble = made(ledger_of(place), Meeting(), lambda: None, approval=True)
    helper = AsyncAgent(MODEL, tools=[look], **{**asking, "system": "You are the second."})
    told = helper.as_tool("helper", "Ask for help.")
    return AsyncAgent(MODEL, tools=[look, pay, stumble, told], client=client, limits=Limits(seconds=60), **asking)


def _files(place: Place, store: SqlStore, goes_on: bool) -> AsyncAgent:
    root = place.folder / "root"
    if not goes_on:
        (root / "sub").mkdir(parents=True)
        for path in (root / "a.txt", root / "fixed.txt", root / "sub" / "fixed.txt"):
            path.write_text("fixed\n")
    tools = builtin_tools(root, approval=False).values()
    return AsyncAgent(MODEL, tools=tools, **_asking(place, "files", store))


def _cut(place: Place, store: SqlStore, goes_on: bool) -> AsyncAgent:
    tools = made(ledger_of(place), Meeting(), lambda: None)
    return AsyncAgent(MODEL, tools=tools, **_asking(place, "cut", store))


async def _cancelled(place: Place) -> None:
    """Cancelled as soon as a call has its result, and gone on with in the same process."""
    async with place.whole() as store, _cut(place, store, False) as agent:
        session = agent.session(session_of(place))
        session.on_event(lambda event: session.cancel_local() if isinstance(event, ToolFinished) else None)
        try:
            await session.send(PROMPT)
            raise AssertionError("nobody was cancelled")
        except RunCancelled:
            await finished(session)
        await session.fork()
        await session.fork(1)


class _Fatal(Ledger):
    """Whoever pays does not live to tell."""

    def write(self, name: str, context: ToolContext) -> None:
        super().write(name, context)
        if name == "pay":
            die()


async def _first_life(place: Place) -> None:
    tools = made(_Fatal(place.folder / "ledger"), Meeting(3), lambda: None)
    async with place.whole() as store, AsyncAgent(MODEL, tools=tools, **_asking(place, "plain", store)) as agent:
        await agent.session(session_of(place)).send(PROMPT)


async def _second_life(place: Place) -> None:
    async with place.whole() as store, _plain(place, store, True) as agent:
        await finished(await agent.resume(session_of(place)))


def _again(place: Place) -> None:
    """A first process dies while it pays; this one goes on."""
    pid = os.fork()
    if not pid:
        stop()
        asyncio.run(_first_life(place))
        os._exit(1)
    os.waitpid(pid, 0)
    asyncio.run(_second_life(place))


STORIES: dict[str, Story] = {
    "plain": Story(_awaited("plain"), _plain),
    "hands": Story(_by_hand, _hands),
    "hard": Story(_awaited("hard"), _hard, bytes=False),
    "files": Story(_awaited("files"), _files),
    "again": Story(_again, _plain, system="plain"),
    "cut": Story(lambda place: asyncio.run(_cancelled(place)), _cut, same=False),
}
