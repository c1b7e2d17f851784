"""The sessions of an agent in its store: list, find, rename, archive, delete, export, import, search, resume."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.helpers import MODEL, agent, scene
from tenuto import Agent, Hooks, tool
from tenuto.agent.hooks import RunInfo
from tenuto.agent.sub_agents import session_id_for
from tenuto.errors import SessionInUse, SessionNotFound, StoreCorrupt, StoreError, TenutoError
from tenuto.sim.script import Script
from tenuto.store.memory import Memory, MemoryStore
from tenuto.testing import call, say, turn
from tenuto.tools.builtin import builtin_tools


@pytest.fixture
def desk(tenuto_sim: Any, tmp_path: Path) -> Any:
    """An agent with three sessions, of which the last used is `c`, and another agent in the same store."""
    tenuto_sim.script("Rain.", "Snow.", "Fog.")
    store = tmp_path / "sessions.db"
    with Agent(MODEL, name="desk", store=store) as ai, Agent(MODEL, name="other", store=store) as other:
        ai.session("a", metadata={"customer": "42"}).send("Weather in Oslo?")
        ai.session("b", metadata={"customer": "43"}).send("Weather in Bergen?")
        ai.session("c", metadata={"customer": "42"}).send("Trains to Bergen?")
        other.session("x", metadata={"customer": "42"}).send("Trains?")
        yield ai


def _ids(agent: Agent, **filters: Any) -> str:
    return "".join(session.id for session in agent.sessions(**filters))


def test_sessions_are_listed_and_filtered(desk: Agent) -> None:
    assert _ids(desk) == "cba"
    assert _ids(desk, limit=2) == "cb"
    assert _ids(desk, name="bergen") == "cb"
    assert _ids(desk, metadata={"customer": "42"}) == "ca"
    assert _ids(desk, status="failed") == ""
    with pytest.raises(ValueError, match="unknown status 'open'"):
        desk.sessions(status="open")
    with pytest.raises(TypeError, match="metadata: expected strings"):
        desk.sessions(metadata={"customer": 42})  # type: ignore[dict-item]


@scene
async def test_long_list_is_read_page_by_page(tenuto_sim):
    memory = Memory()
    async with MemoryStore(memory) as store, agent(store=store) as ai:
        await ai.session("s").send("Hi.")
        for number in range(450):
            await store.fork("s", id=f"f{number}")
        listed = [session.id async for session in ai.sessions()]
        some = [session.id async for session in ai.sessions(limit=201)]

    assert len(listed) == len({*listed}) == 451
    assert some == listed[:201]


def test_directory_is_that_of_the_tools(tenuto_sim: Any, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    for folder in ("one", "two"):
        tools = builtin_tools(tmp_path / folder, names=["read_file"]).values()
        with Agent(MODEL, tools=tools, store=tmp_path / "s.db") as ai:
            ai.session(folder).send("Hi.")
    with Agent(MODEL, store=tmp_path / "s.db") as ai:
        assert _ids(ai, directory=tmp_path / "one" / ".") == "one"
        assert _ids(ai, directory=tmp_path) == ""


def test_find_rename_and_archive(desk: Agent) -> None:
    desk.rename("~1", "bergen")
    assert desk.find("bergen").id == "b"
    assert desk.find(desk.resume("bergen")).name == "bergen"
    with pytest.raises(ValueError, match="bergen"):
        desk.rename("a", "bergen")
    desk.rename("bergen", "")
    with pytest.raises(SessionNotFound):
        desk.find("bergen")
    desk.archive("last")
    assert (_ids(desk), _ids(desk, archived=True), _ids(desk, archived=None)) == ("ba", "c", "cba")
    desk.archive("c", archived=False)
    assert _ids(desk) == "cba"


def test_session_with_forks_or_a_holder_is_not_deleted(desk: Agent) -> None:
    fork = desk.resume("a").fork()
    with pytest.raises(StoreError, match="fork"):
        desk.delete("a")
    assert {*desk.delete("a", forks=True)} == {"a", fork.id}
    with desk.session("b") as lease:
        lease.send("And now?")
        with pytest.raises(SessionInUse):
            desk.delete("b")
    assert desk.delete("b") == ("b",)
    assert _ids(desk) == "c"


def test_exported_session_is_imported_with_every_byte(desk: Agent, tmp_path: Path, tenuto_sim: Any) -> None:
    desk.rename("a", "oslo")
    exported = desk.export("oslo")
    with Agent(MODEL, name="desk", store=tmp_path / "other.db") as ai:
        for _ in range(2):  # again: it exists already
            [imported] = ai.import_sessions(exported)
            assert (imported.session, imported.left_out) == ("a", ())
        session = ai.resume("oslo")
        assert session.metadata == {"customer": "42"}
        assert session.entries() == desk.resume("a").entries()
        assert ai.export("a") == exported
        ai.import_sessions(exported.decode() + desk.export("b").decode())
        assert {one.id for one in ai.sessions()} == {"a", "b"}
        with pytest.raises(StoreCorrupt):
            ai.import_sessions(exported.replace(b"Oslo", b"Rome"))
        assert session.send("More?").text == "Snow."
    with pytest.raises(StoreError, match="another session 'a'"), Agent(MODEL, store=None) as ai:
        ai.session("a").send("Someone else.")
        ai.import_sessions(exported)


def test_search_finds_entries_of_this_agent(desk: Agent) -> None:
    assert [hit.session for hit in desk.search("trains")] == ["c"]
    assert {hit.session for hit in desk.search("weather", limit=1)} <= {"a", "b"}
    assert desk.search("unicorn") == []


# --- metadata ---------------------------------------------------------------------------------------------------------


@scene
async def test_metadata_are_stored_and_inherited(tenuto_sim, stores):
    async with stores() as store, agent(store=store) as ai:
        session = ai.session("s", metadata={"customer": "42"})
        assert session.metadata == {"customer": "42"}
        assert session.is_new
        await session.set_metadata({"customer": "42", "team": "north"})
        assert session.is_new
        await session.send("Hi.")
        assert (await ai.find("s")).meta.metadata == {"customer": "42", "team": "north"}
        fork = await session.fork()
        await session.set_metadata({"team": "south"})
        assert [one.id async for one in ai.sessions(metadata={"team": "south"})] == ["s"]
        assert fork.metadata == {"customer": "42", "team": "north"}
        assert session.status == "completed"
    async with stores() as store, agent(store=store) as ai:
        session = await ai.resume("s")
        assert session.metadata == {"team": "south"}
        entries = len(await session.entries())
        again = ai.session("s", metadata={"team": "south"})
        await again.send("Once more.")
        kinds = [entry.kind for entry in await again.entries()][entries:]
        assert "metadata_changed" not in kinds  # they are the same
        assert not await store.verify()
        with pytest.raises(TypeError, match="expected strings"):
            await session.set_metadata({"team": 5})


def test_usage_and_cost_include_sub_agents(tenuto_sim: Any) -> None:
    tenuto_sim.script(
        turn(call("ask", {"prompt": "How deep?"})), turn(say("Two meters.")), turn(say("Two meters, it says."))
    )
    reader = Agent(MODEL, store=None, name="reader")
    with reader, Agent(MODEL, store=None, tools=[reader.as_tool("ask", "Ask the reader.")]) as ai:
        session = ai.session()
        session.send("How deep is it?")
        own = [entry.payload.usage for entry in session.entries() if entry.kind == "reply_received"]
        below = [entry.payload.usage for entry in session.entries() if entry.kind == "call_finished"]

    assert session.usage == sum([*own[1:], *below], own[0])
    assert below[0].output_tokens
    assert session.cost is None or session.cost >= 0


# --- resume_all -------------------------------------------------------------------------------------------------------

DYING = """
import sys
from tenuto import Agent, Hooks, tool
from tenuto.agent.hooks import RunInfo

@tool(effect="pure")
def look(place: str) -> str:
    "Look at a place."
    print("looking", flush=True)
    sys.stdin.read()
    return "fog"

with Agent("sim/anthropic", name="desk", tools=[look], store=sys.argv[1]) as agent:
    agent.session(sys.argv[2]).send("Look!")
"""


def _kill_in_a_tool(store: Path, *ids: str, script: Path) -> None:
    """Let processes die in a tool call of these sessions."""
    env = {**os.environ, "TENUTO_SIM_SCRIPT": str(script)}
    for id in ids:
        args = [sys.executable, "-c", textwrap.dedent(DYING), str(store), id]
        process = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"looking\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdin.close()
        process.stdout.close()


@tool(effect="pure")
def look(path: str) -> str:
    """Look at a place."""
    if path == "nowhere":
        raise RuntimeError("no such place")
    return "fog"


def test_sessions_of_dead_processes_are_finished(tenuto_sim: Any, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_bytes(msgspec.json.encode(Script(turns=(turn(call("look", {"place": "Oslo"})),))))
    store = tmp_path / "sessions.db"
    _kill_in_a_tool(store, "one", "two", script=script)
    tenuto_sim.script(turn(call("look", {"place": "Oslo"})), turn(say("Fog.")))
    with Agent(MODEL, name="desk", tools=[look], store=store) as ai:
        assert _ids(ai, status="interrupted") in ("onetwo", "twoone")
        done = ai.resume_all()
        assert sorted((one.id, one.status, one.text, one.error) for one in done) == [
            ("one", "completed", "Fog.", None),
            ("two", "completed", "Fog.", None),
        ]
        assert ai.resume_all() == ()


def test_posted_message_is_taken_by_its_own_agent(desk: Agent) -> None:
    desk.resume("a").enqueue("And now?")
    with Agent(MODEL, name="third", store=desk._async.store) as third:
        assert third.resume_all() == ()
    [done] = desk.resume_all()

    assert (done.id, done.text) == ("a", "Snow.")


def test_session_of_a_sub_agent_is_left_to_its_caller(desk: Agent) -> None:
    session = desk.session(session_id_for("a call"))
    session.send("Hi.")
    session.enqueue("More.")

    assert desk.resume_all() == ()


class Broken(Hooks):
    async def around_run(self, run: RunInfo, next: Any) -> None:
        if run.session_id == "broken":
            raise TenutoError("the desk is closed")
        await next()


@scene
async def test_error_of_one_session_stops_no_other(tenuto_sim, stores):
    async with stores() as store, agent(name="desk", store=store) as ai:
        for id in ("held", "broken", "fine"):
            session = ai.session(id)
            await session.send("Hi.")
            await session.enqueue("More.")
        lease = await store.lease("held")
        async with stores() as other, agent(name="desk", store=other, hooks=[Broken()]) as second:
            done = {one.id: one for one in await second.resume_all()}
        await store.release(lease)

    assert {id: one.status for id, one in done.items()} == {"broken": "failed", "fine": "completed"}
    assert str(done["broken"].error) == "the desk is closed"
