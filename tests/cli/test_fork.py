"""`fork`: a branch that shares what was said, and never takes a call from its result."""

from __future__ import annotations

import asyncio
import json
import re
import sys

import pytest

from tenuto import settings
from tenuto.core.blocks import Text, ToolUse
from tenuto.core.journal import CallFinished, CallStarted, Configured, MessageAdded, ReplyReceived, RunEnded
from tenuto.core.messages import AssistantMessage, ToolResult, UserMessage
from tenuto.core.stored import make_draft
from tenuto.store.open import open_store

CALL = AssistantMessage((ToolUse("c1", "dig", "{}"),), stop_reason="tool_calls")
ACTS = [
    Configured("sim/anthropic"),
    MessageAdded(UserMessage("Dig")),
    ReplyReceived(CALL),
    CallStarted("c1", 0, "dig"),
    CallFinished(ToolResult("c1", "dug"), 0),
    ReplyReceived(AssistantMessage((Text("Done."),))),
    RunEnded("completed"),
]


def keep(place, id, acts):
    async def write():
        async with open_store(place) as store:
            lease = await store.lease(id)
            drafts = [make_draft(act, id=f"{id}{at}", time_ms=1_000_000 + at) for at, act in enumerate(acts)]
            await store.release(await store.append(lease, drafts))

    asyncio.run(write())


@pytest.fixture
def kept(here):
    keep(settings.store(), "dig", ACTS)
    keep(settings.store(), "open", ACTS[:4])


def shown(here, id):
    return json.loads(here("show", id, "--json").out)


def test_a_fork_has_the_first_messages_and_the_session_stays_as_it_is(here, kept):
    before = shown(here, "dig")
    whole, three = here("fork", "dig"), here("fork", "dig", "--at", "3", "--name", "half", "--json")
    made = json.loads(three.out)
    fork = shown(here, "half")

    assert (0, "") == (whole.code, three.err)
    assert f"resume with: tenuto resume {whole.out[:12]}\n" == whole.err
    assert [entry["digest"] for entry in before["entries"]] == [
        entry["digest"] for entry in shown(here, whole.out.strip())["entries"]
    ]
    assert {"session": fork["session"]["session"], "name": "half", "parent": "dig", "forked_at": 5} == made
    assert before["entries"][:5] == fork["entries"]
    assert before["entries"] == shown(here, "dig")["entries"]
    assert sorted([whole.out.strip(), made["session"]]) == shown(here, "dig")["forks"]
    assert f"\nforks: {', '.join(shown(here, 'dig')['forks'])}\n" in here("show", "dig").out
    assert ", forked from dig\n" in here("show", "half").out


def test_it_goes_on_by_itself(here, kept, tenuto_sim):
    from tenuto.testing import turn

    tenuto_sim.script(turn("Deeper."))
    here("fork", "dig", "--at", "1", "-n", "again")
    done = here("resume", "again")

    assert (0, "Deeper.\n") == done[:2]
    assert {"again": 2, "": 4} == {
        one["name"]: one["messages"] for one in json.loads(here("sessions", "--json").out) if one["id"] != "open"
    }


@pytest.mark.parametrize(
    "arguments, why",
    [
        (["dig", "--at", "2"], "a tool call would lose its result; choose 1 or 3"),
        (["dig", "--at", "5"], "choose 1 to 4"),
        (["open"], "a tool call would lose its result; choose 1"),
        (["dig", "--at", "0"], "0"),
        (["dig", "--name", "~1"], "by its place"),
        (["dig", "--name", "taken"], "another session is called 'taken'"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(here, kept, arguments, why):
    here("sessions", "rename", "open", "taken")
    done = here("fork", *arguments)

    assert (2, "") == done[:2]
    assert why in done.err
    assert 2 == len(json.loads(here("sessions", "--json").out))


def test_a_session_that_is_not_there_is_code_7(here, monkeypatch, tmp_path):
    monkeypatch.setenv("TENUTO_STORE", str(tmp_path / "none.db"))
    done = here("fork")

    assert (
        7,
        "",
        "error: no session is called 'last': there are none yet\n  list them with tenuto sessions\n",
    ) == done
    assert not (tmp_path / "none.db").exists()


def test_through_a_pipe(tenuto):
    """The id alone, for whoever goes on with it; how to go on names the store if that had to be named."""
    keep(tenuto.folder / "my store.db", "dig", ACTS)
    done = tenuto.run("fork", "dig", "--store", "my store.db")

    assert 0 == done.code
    assert re.fullmatch(r"01\w{24}\n", done.out)
    assert f"resume with: tenuto resume {done.out[:12]} --store 'my store.db'\n" == done.err


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_on_a_terminal(tenuto):
    keep(tenuto.store, "dig", ACTS)
    code, screen = tenuto.terminal("fork", "dig", "-n", "a b").end()

    assert 0 == code
    assert re.fullmatch(r"01\w{24}\nresume with: tenuto resume 'a b'\n", screen)
