"""Resuming a session: its configuration applies, and its pending work is done."""

from __future__ import annotations

import pytest

from agent.helpers import add, agent, journal_labels, pay, scene
from tenuto import Thinking, tool
from tenuto.core import jsonio
from tenuto.core.journal import (
    CallStarted,
    Configured,
    MessageAdded,
    ReplyReceived,
    RequestStarted,
    UnknownPayload,
    payload_kind,
)
from tenuto.core.messages import UserMessage
from tenuto.core.stored import make_draft
from tenuto.errors import MissingKey, MissingTool, SessionNotFound, StoreError, TenutoError, UnsupportedModel
from tenuto.testing import call, say, turn
from tenuto.tools import builtin_tools


async def left_by_killed_process(store, session: str, *acts) -> None:
    """Write a journal as a killed process leaves it."""
    lease = await store.lease(session)
    await store.append(lease, [make_draft(act, id=f"{session}-{at}", time_ms=at) for at, act in enumerate(acts, 1)])
    await store.release(await store.lease(session, takeover=True))


async def reply_with_tokens(tenuto_sim, tools, *steps):
    """Return a reply of the simulator, with all its tokens."""
    tenuto_sim.script(turn(*steps), turn("."))
    async with agent(*tools, store=None) as ai:
        session = ai.session()
        await session.send("Hi")
        acts = [entry.payload for entry in await session.entries()]
    tenuto_sim.clear()
    return acts[: next(at for at, act in enumerate(acts) if isinstance(act, ReplyReceived)) + 1]


@scene
async def test_resumed_session_has_its_model_and_parameters(tenuto_sim, stores):
    """The next request equals the first one except for its messages: thinking, tool choice, response format and
    others.
    """
    tenuto_sim.script(turn("One."), turn("Two."))
    shape = {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": {"type": "object", "additionalProperties": False}},
    }
    options = dict(
        system="Be brief.",
        thinking=Thinking(budget=2000),
        tool_choice="auto",
        response_format=shape,
        max_tokens=4000,
        stop=["END"],
        extra_body={"metadata": {"user_id": "u1"}},
    )
    async with stores() as store, agent(add, store=store, **options) as ai:
        await ai.session("s").send("A")
    async with stores() as store, agent(add, store=store, model="sim/openai", temperature=1.0) as ai:
        session = await ai.resume("s")
        assert session.model == "sim/anthropic"
        await session.send("B")
        configured = [entry.payload for entry in await session.entries() if isinstance(entry.payload, Configured)]

    first, second = (dict(record.body) for record in tenuto_sim.requests)
    assert len(second.pop("messages")) > len(first.pop("messages"))
    assert first == second
    assert first["system"]
    assert first["thinking"]
    assert len(configured) == 1
    tenuto_sim.assert_clean()


@scene
async def test_headers_are_sent_and_not_stored(tenuto_sim, stores):
    """They may contain secrets, so the resuming agent passes its own."""
    sent = []

    def spy(request, next):
        sent.append(request.extra_headers)
        return next(request)

    async with stores() as store, agent(store=store, extra_headers={"x-secret": "hush"}, middleware=[spy]) as ai:
        session = ai.session("s")
        await session.send("A")
        assert all(b"hush" not in entry.body for entry in await session.entries())
    async with stores() as store, agent(store=store, extra_headers={"x-secret": "mine"}, middleware=[spy]) as ai:
        await (await ai.resume("s")).send("B")

    assert sent == [{"x-secret": "hush"}, {"x-secret": "mine"}]


@scene
async def test_session_can_be_read_without_its_tools(tenuto_sim, stores):
    tenuto_sim.script(turn("One."), turn("Two."))
    async with stores() as store, agent(add, store=store) as ai:
        await ai.session("s").send("A")
    async with stores() as store, agent(store=store) as ai:
        session = await ai.resume("s")
        assert session.text == "One."
        assert (await session.audit()).clean
        assert (await session.send("B")).text == "Two."
    assert "tools" not in tenuto_sim.requests[-1].body


@scene
async def test_open_call_of_a_missing_tool_is_an_error(tenuto_sim, stores):
    """Nothing is written, and with the tool the session continues."""
    tenuto_sim.script(turn(call("pay", {"amount": 5})), turn("Done."))
    async with stores() as store, agent(pay, store=store) as ai:
        await ai.session("s").send("A")
    async with stores() as store, agent(store=store) as ai:
        session = await ai.resume("s")
        head = len(await session.entries())
        with pytest.raises(MissingTool, match="pay"):
            await session.continue_()
        assert len(await session.entries()) == head
        assert (await store.session("s")).holder == ""
    async with stores() as store, agent(pay, store=store) as ai:
        assert (await (await ai.resume("s")).approve()).text == "Done."


@scene
async def test_resumed_session_uses_the_instructions_of_the_agent(tenuto_sim, stores):
    """Model and parameters stay those of the session."""
    async with stores() as store, agent(store=store, system="OLD", max_tokens=300) as ai:
        await ai.session("s").send("A")
    async with stores() as store, agent(store=store, system="NEW", max_tokens=400, model="sim/openai") as ai:
        session = await ai.resume("s")
        assert (session.model, len(session.transcript)) == ("sim/anthropic", 2)
        await session.send("B")
    body = tenuto_sim.requests[-1].body
    assert "NEW" in str(body["system"])
    assert body["max_tokens"] == 300


@scene
async def test_agent_without_instructions_keeps_those_of_the_session(tenuto_sim, stores):
    async with stores() as store, agent(store=store, system="OLD") as ai:
        await ai.session("s").send("A")
    async with stores() as store, agent(store=store) as ai:
        session = await ai.resume("s")
        await session.send("B")
        assert (await journal_labels(session)).count("configured") == 1
    assert "OLD" in str(tenuto_sim.requests[-1].body["system"])


@scene
async def test_changed_tools_are_recorded_once(tenuto_sim, stores):
    """The agent's tools are used; the journal has the change."""

    @tool(name="add")
    def plus(a: int, b: int, c: int = 0) -> int:
        """Add numbers."""
        return a + b + c

    tenuto_sim.script(turn("One."), turn("Two."), turn("Three."))
    async with stores() as store, agent(add, store=store) as ai:
        await ai.session("s").send("A")
    async with stores() as store, agent(plus, add_two, store=store) as ai:
        session = await ai.resume("s")
        await session.send("B")
        await session.send("C")
        kinds = await journal_labels(session)
        configurations = [entry.payload for entry in await session.entries() if isinstance(entry.payload, Configured)]

    assert kinds[5:7] == ["configured", "message_added"]
    assert len(configurations) == 2
    assert '"c"' in configurations[1].tools
    assert len(tenuto_sim.requests[1].body["tools"]) == 2


@tool
def add_two(a: int) -> int:
    """Add two."""
    return a + 2


@scene
async def test_sessions_are_found_by_last_position_prefix_and_agent(tenuto_sim):
    """`last` is the last one with the name of this agent."""
    async with agent(name="a") as ai, agent(name="b") as other:
        for id in ("one", "two"):
            await ai.session(id).send("Hi")
        await other.session("three").send("Hi")
        found = [(await ai.resume(text)).id for text in ("last", "~1", "on", "three")]
        with pytest.raises(SessionNotFound):
            await ai.resume("four")

    assert found == ["two", "one", "one", "three"]


@scene
async def test_request_without_a_reply_is_sent_again(tenuto_sim, stores):
    """By the next run; the attempt is counted."""
    tenuto_sim.script(turn("Here."))
    async with stores() as store:
        await left_by_killed_process(
            store, "s", Configured("sim/anthropic"), MessageAdded(UserMessage("Hi")), RequestStarted("sim/anthropic")
        )
        async with agent(store=store) as ai:
            session = await ai.resume("s")
            assert (session.status, session.has_pending_work) == ("interrupted", True)
            reply = await session.continue_()
            assert reply.text == "Here."
            assert [
                entry.payload.attempt for entry in await session.entries() if isinstance(entry.payload, RequestStarted)
            ] == [1, 2]
            assert session.status == "completed"


@pytest.mark.parametrize(
    "effect, ran, result_text",
    [
        ("pure", 1, "5"),
        ("idempotent", 1, "5"),
        ("once", 0, "no result was recorded"),
        ("", 0, "no result was recorded"),
    ],
)
@scene
async def test_interrupted_call_is_treated_by_its_recorded_effect(tenuto_sim, effect, ran, result_text):
    """A repeatable call runs again as another attempt with the same key."""
    runs = []

    @tool(effect="pure")
    def look(x: int) -> int:
        """Look."""
        runs.append(x)
        return x

    acts = await reply_with_tokens(tenuto_sim, [look], call("look", {"x": 5}))
    runs.clear()
    tenuto_sim.script(turn(call("look", {"x": 5})), turn("Done."))
    async with agent(look) as ai:
        begun = CallStarted(next(acts[-1].message.tool_calls()).id, 0, "look", "the-key", effect)
        await left_by_killed_process(ai.store, "s", *acts, begun)
        session = await ai.resume("s")
        assert (await session.continue_()).text == "Done."
        entries = await session.entries()

        assert len(runs) == ran
        assert result_text in str(session.transcript[2].results[0].content)
        begun = [entry.payload for entry in entries if isinstance(entry.payload, CallStarted)]
        assert [(act.idempotency_key, act.attempt) for act in begun] == [("the-key", 1), ("the-key", 2)][: 1 + ran]
        assert not await ai.store.verify()
    tenuto_sim.assert_clean()


@scene
async def test_session_of_a_later_version_is_shown_but_not_resumed(tenuto_sim):
    """The message has the remedy."""
    async with agent() as ai:
        await ai.session("s").send("Hi")
        await ai.close()
    async with agent() as ai:
        lease = await ai.store.lease("s")
        strange = UnknownPayload("dreamt", '{"entry":"dreamt"}')
        await ai.store.append(lease, [make_draft(strange, id="x", time_ms=9)])
        with pytest.raises(StoreError, match=r"entry 6 \(dreamt\) was written by a later version.*exported"):
            await ai.resume("s")
        assert [payload_kind(entry.payload) for entry in await ai.store.read("s")][-1] == "dreamt"


@scene
async def test_parameter_of_a_later_version_is_named(tenuto_sim):
    """It is not dropped silently."""
    async with agent() as ai:
        configured = Configured("sim/anthropic", parameters=jsonio.encode({"mood": "gay"}).decode())
        await left_by_killed_process(ai.store, "s", configured, MessageAdded(UserMessage("Hi")))
        with pytest.raises(StoreError, match="does not know the session's parameter 'mood'"):
            await (await ai.resume("s")).continue_()
    assert not tenuto_sim.requests


@scene
async def test_session_with_a_refused_model_can_be_read():
    """A run is refused unless the model was allowed when the session began."""
    model = "anthropic/claude-3-opus-20240229"
    async with agent(keys={"anthropic": ""}, store=None) as ai:
        await left_by_killed_process(ai.store, "s", Configured(model), MessageAdded(UserMessage("Hi")))
        session = await ai.resume("s")
        assert len(session.transcript) == 1
        with pytest.raises(UnsupportedModel):
            await session.continue_()
        await left_by_killed_process(
            ai.store, "t", Configured(model, allow_unverified=True), MessageAdded(UserMessage("Hi"))
        )
        with pytest.raises(MissingKey):
            await (await ai.resume("t")).continue_()


@scene
async def test_invalid_journal_is_refused_with_the_entry(tenuto_sim):
    async with agent() as ai:
        await left_by_killed_process(ai.store, "s", Configured("sim/anthropic"), RequestStarted("sim/anthropic"))
        with pytest.raises(Exception, match="'request_started' cannot happen while the session is completed") as caught:
            await ai.resume("s")
    assert caught.value.__notes__ == ["entry 2 of session 's'"]


@scene
async def test_resumed_session_shows_its_last_reply(tenuto_sim, stores):
    """Text, message, usage and status; only the process that received the reply has the reply itself."""
    tenuto_sim.script(turn(say("Hello.")))
    async with stores() as store, agent(store=store) as ai:
        first = ai.session("s")
        await first.send("Hi")
    async with stores() as store, agent(store=store) as ai:
        session = await ai.resume()

        assert (session.text, session.last.stop_reason, session.reply) == ("Hello.", "stop", None)
        assert session.usage == first.usage
        assert session.transcript == first.transcript
        assert repr(session) == "<AsyncSession s completed>"


@scene
async def test_builtin_tools_keep_their_directory_on_resume(tenuto_sim, stores, tmp_path):
    """Another directory must be passed explicitly and needs approval again."""
    tenuto_sim.script(turn(call("write_file", {"path": "a.txt", "content": "x"})), turn("Done."))
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    for directory in (one, two, three):
        directory.mkdir()

    def tools(directory):
        return builtin_tools(directory, names=["write_file"]).values()

    async with stores() as store, agent(*tools(one), store=store) as ai:
        await ai.session("s").send("Write.")
    async with stores() as store, agent(*tools(two), store=store) as ai:
        session = await ai.resume("s")
        await session.approve()
        assert (await journal_labels(session)).count("configured") == 1
        moved = await ai.resume(await store.fork("s", at=4), root=three)
        await moved.continue_()
        await moved.approve()
        acts = [entry.payload for entry in await moved.entries() if isinstance(entry.payload, Configured)]
        assert [jsonio.parse(act.roots) for act in acts] == [{"write_file": str(one)}, {"write_file": str(three)}]
    assert [(directory / "a.txt").exists() for directory in (one, two, three)] == [True, False, True]


@scene
async def test_missing_directory_of_a_session_is_an_error(tenuto_sim, stores, tmp_path):
    tenuto_sim.script(turn(call("list_files", {"path": "."})), turn("Done."), turn("More."))
    directory = tmp_path / "gone"
    directory.mkdir()
    async with stores() as store, agent(*builtin_tools(directory).values(), store=store) as ai:
        await ai.session("s").send("List.")
    directory.rmdir()
    async with stores() as store, agent(*builtin_tools(tmp_path).values(), store=store) as ai:
        session = await ai.resume("s")
        assert session.text == "Done."
        with pytest.raises(TenutoError, match="a working directory of the session is gone"):
            await session.send("Go.")
        assert (await (await ai.resume("s", root=tmp_path)).send("Go.")).text == "More."
