"""The scenarios of the killed agent, and how another process continues them.

`plain` is a run of two turns with three tools at the same time. The others reach further lines: `hands` with the
synchronous API, approvals and a steered message; `hard` with a sub-agent, a pending call, calls that cannot run, and errors
of the provider; `files` with the tools of the command; `cut` is cancelled; `again` was killed before, while its tools ran;
`long`, `summed` and `wide` are compacted by the provider, by the model, and by the provider in the background.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from crash.agent_tools import Barrier, Ledger, make_tools
from crash.experiments import Experiment
from crash.provider import TAG
from crash.tracing import kill_self, stop
from tenuto import Agent, Compaction, Limits
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
STEERED = "And mind the step."
MODEL = "sim/anthropic"
CLAUDE = "sim/anthropic/claude-opus-5-5"
COMPACTED_AT = 0.00025
"""The share of its window at which some sessions are compacted, before their last turns."""

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
                *(think("The helper knows."), call("helper", {"prompt": "Help me."}), call("nothing", {})),
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
    *(
        Script(
            (*(turn(think(f"Turn {at}."), call("look", {"turn": at})) for at in range(1, 7)), turn(say("It is done."))),
            name,
        )
        for name in ("long", "summed", "wide")
    ),
    Script((turn(say("Goal: look.")),), "Write a summary of the conversation", "repeat"),
)


class Scenario(NamedTuple):
    """How a run is started, and how another process continues it.

    `same`: the end is the same, whenever it was killed. `bytes`: so are the tokens, as long as no call was interrupted.
    """

    begin: Callable[[Experiment], None]
    agent: Callable[[Experiment, SqlStore, bool], AsyncAgent]
    same: bool = True
    bytes: bool = True
    compacts: bool = False
    """Whether its session is compacted."""
    in_flight: int = 1
    """The number of requests that a kill can repeat."""
    system: str = ""

    def is_counted(self, name: str) -> bool:
        """Return whether the effects of a tool are counted here, not in the session of a sub-agent."""
        return not (self.agent is _make_failing_agent and name == "look")


def session_of(experiment: Experiment) -> str:
    """Return the session id of an experiment."""
    return f"{experiment.prefix}run"


def ledger_of(experiment: Experiment) -> Ledger:
    """Return the ledger of an experiment."""
    return Ledger(experiment.directory / "ledger")


def _make_options(experiment: Experiment, scenario: str, store: Any) -> dict[str, Any]:
    """Return the options of all agents."""
    return {
        "system": f"You are {scenario}.",
        "store": store,
        "extra_headers": {TAG: experiment.directory.name},
        "retry": Retry(3, base=0.0),
    }


async def finish_run(session: AsyncSession) -> None:
    """Finish the run and approve pending calls."""
    while session.has_pending_work:
        await session.continue_()
        if session.pending:
            await session.approve()


def _run_async(scenario: str) -> Callable[[Experiment], None]:
    async def run(experiment: Experiment) -> None:
        async with experiment.open_database() as store, SCENARIOS[scenario].agent(experiment, store, False) as agent:
            session = agent.session(session_of(experiment))
            await session.send(PROMPT)
            await finish_run(session)
            await agent.client.close()

    return lambda experiment: asyncio.run(run(experiment))


# --- scenarios --------------------------------------------------------------------------------------------------------


def _make_plain_agent(experiment: Experiment, store: SqlStore, continues: bool) -> AsyncAgent:
    tools = make_tools(ledger_of(experiment), Barrier(0 if continues else 3), lambda: None)
    return AsyncAgent(MODEL, tools=tools, **_make_options(experiment, "plain", store))


def _approve(view: Any) -> bool | str:
    return view.name == "pay" or "not today"


def _make_sync_agent(experiment: Experiment, store: SqlStore, continues: bool) -> AsyncAgent:
    tools = make_tools(ledger_of(experiment), Barrier(), lambda: None, approval=True)
    return AsyncAgent(MODEL, tools=tools, approve=_approve, **_make_options(experiment, "hands", store))


def _run_sync(experiment: Experiment) -> None:
    """Run the synchronous API; a message is steered while `look` runs."""
    sessions: list[Any] = []
    tools = make_tools(ledger_of(experiment), Barrier(), lambda: sessions[0].steer(STEERED), approval=True)
    with Agent(
        MODEL, tools=tools, approve=_approve, **_make_options(experiment, "hands", experiment.address())
    ) as agent:
        with agent.session(session_of(experiment)) as session:
            sessions.append(session)
            received: list[Any] = []
            forget = session.on_event(received.append)
            with session.stream(PROMPT) as run:
                events = list(run)
            forget()
            assert len(events) == len(received)
            assert (session.status, session.text) == ("completed", run.reply.text)
            assert (session.has_pending_work, session.pending, session.continue_()) == (False, (), None)
            assert len(session.entries()) > len(session.transcript.messages)
        again = agent.resume(session_of(experiment))
        assert again.usage == session.usage


def _make_failing_agent(experiment: Experiment, store: SqlStore, continues: bool) -> AsyncAgent:
    client = AsyncClient(
        middleware=[], keys={"sim": experiment.directory.name}
    )  # the simulator counts denials and failures per key
    asking = _make_options(experiment, "hard", store)
    look, _, pay, *_, stumble = make_tools(ledger_of(experiment), Barrier(), lambda: None, approval=True)
    helper = AsyncAgent(MODEL, tools=[look], **{**asking, "system": "You are the second."})
    helper_tool = helper.as_tool("helper", "Ask for help.")
    return AsyncAgent(
        MODEL, tools=[look, pay, stumble, helper_tool], client=client, limits=Limits(seconds=60), **asking
    )


def _make_file_agent(experiment: Experiment, store: SqlStore, continues: bool) -> AsyncAgent:
    root = experiment.directory / "root"
    if not continues:
        (root / "sub").mkdir(parents=True)
        for path in (root / "a.txt", root / "fixed.txt", root / "sub" / "fixed.txt"):
            path.write_text("fixed\n")
    tools = builtin_tools(root, approval=False).values()
    return AsyncAgent(MODEL, tools=tools, **_make_options(experiment, "files", store))


def _make_cancelled_agent(experiment: Experiment, store: SqlStore, continues: bool) -> AsyncAgent:
    tools = make_tools(ledger_of(experiment), Barrier(), lambda: None)
    return AsyncAgent(MODEL, tools=tools, **_make_options(experiment, "cut", store))


async def _run_cancelled(experiment: Experiment) -> None:
    """Cancel the run after the first result, and continue in the same process."""
    async with experiment.open_database() as store, _make_cancelled_agent(experiment, store, False) as agent:
        session = agent.session(session_of(experiment))
        session.on_event(lambda event: session.cancel_local() if isinstance(event, ToolFinished) else None)
        try:
            await session.send(PROMPT)
            raise AssertionError("the run was not cancelled")
        except RunCancelled:
            await finish_run(session)
        await session.fork()
        await session.fork(1)


class _Fatal(Ledger):
    """Kill the process in `pay`."""

    def write(self, name: str, context: ToolContext) -> None:
        super().write(name, context)
        if name == "pay":
            kill_self()


async def _first_life(experiment: Experiment) -> None:
    tools = make_tools(_Fatal(experiment.directory / "ledger"), Barrier(3), lambda: None)
    async with (
        experiment.open_database() as store,
        AsyncAgent(MODEL, tools=tools, **_make_options(experiment, "plain", store)) as agent,
    ):
        await agent.session(session_of(experiment)).send(PROMPT)


async def _second_life(experiment: Experiment) -> None:
    async with experiment.open_database() as store, _make_plain_agent(experiment, store, True) as agent:
        await finish_run(await agent.resume(session_of(experiment)))


def _run_after_kill(experiment: Experiment) -> None:
    """Kill a first process in `pay`; continue in this one."""
    pid = os.fork()
    if not pid:
        stop()
        asyncio.run(_first_life(experiment))
        os._exit(1)
    os.waitpid(pid, 0)
    asyncio.run(_second_life(experiment))


def _make_long_agent(scenario: str, settings: Compaction) -> Callable[[Experiment, SqlStore, bool], AsyncAgent]:
    """Return a factory of agents whose session is compacted before its last turns."""

    def make(experiment: Experiment, store: SqlStore, continues: bool) -> AsyncAgent:
        look = make_tools(ledger_of(experiment), Barrier(), lambda: None)[0]
        options = _make_options(experiment, scenario, store)
        return AsyncAgent(CLAUDE, tools=[look], compaction=settings, on_loss="keep", **options)

    return make


LONG = Compaction(at=COMPACTED_AT, keep_tokens=60, background=False)

SCENARIOS: dict[str, Scenario] = {
    "plain": Scenario(_run_async("plain"), _make_plain_agent),
    "hands": Scenario(_run_sync, _make_sync_agent),
    "hard": Scenario(_run_async("hard"), _make_failing_agent, bytes=False),
    "files": Scenario(_run_async("files"), _make_file_agent),
    "again": Scenario(_run_after_kill, _make_plain_agent, system="plain"),
    "long": Scenario(_run_async("long"), _make_long_agent("long", LONG), bytes=False, compacts=True),
    "summed": Scenario(
        _run_async("summed"), _make_long_agent("summed", replace(LONG, by="model")), bytes=False, compacts=True
    ),
    "wide": Scenario(
        _run_async("wide"),
        _make_long_agent("wide", replace(LONG, background=True)),
        bytes=False,
        compacts=True,
        in_flight=2,
    ),
    "cut": Scenario(lambda experiment: asyncio.run(_run_cancelled(experiment)), _make_cancelled_agent, same=False),
}
