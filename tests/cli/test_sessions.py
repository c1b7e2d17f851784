"""`sessions` and `show`: what is kept, without a word being written."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from tenuto import settings
from tenuto.agent.agent import AsyncAgent
from tenuto.core.blocks import Image, Reasoning, ServerToolUse, Text, ToolUse
from tenuto.core.journal import (
    ApprovalAsked,
    Asked,
    Compacted,
    Configured,
    Decided,
    Failed,
    HandedOver,
    Linked,
    Lost,
    Replied,
    Returned,
    Said,
    Started,
    Steered,
    Stopped,
    Strange,
)
from tenuto.core.messages import AssistantMessage, SystemMessage, ToolResult, UserMessage
from tenuto.core.stored import drafted
from tenuto.core.target import Loss
from tenuto.store.opening import open_store
from tenuto.testing import call, say, turn

ACTS = [
    Configured("sim/anthropic", system="Be\x1b brief."),
    Said(UserMessage((Text("Look \u202ehere"), Image("aGk=", "image/png")))),
    Asked("sim/anthropic"),
    Failed("RateLimited", "slow\x07 down"),
    Asked("sim/anthropic"),
    Replied(
        AssistantMessage(
            (
                Reasoning("A thought\nof two lines"),
                Reasoning(""),
                Text("I shall \x1b[2J dig."),
                ServerToolUse("s1", "web_search", '{"query": "spades"}'),
                ToolUse("c1", "dig", '{"depth": 3, "note": "one\\ntwo: 2"}'),
                ToolUse("c2", "ask", "not JSON", broken="no"),
            ),
            stop_reason="tool_calls",
        ),
        losses=(Loss("foreign", "messages[0]", "a signature", "none"),),
    ),
    ApprovalAsked("c1", 0, "dig"),
    Decided("c1", 0, allowed=False, why="too\x9b deep"),
    Returned(ToolResult("c1", "dig was not run", is_error=True), 0, outcome="denied"),
    Linked("child", "c2", 1),
    Started("c2", 1, "ask"),
    Returned(ToolResult("c2", "\n".join(f"line {n}\x1b" for n in range(60))), 1),
    Steered(UserMessage("Hurry")),
    Lost(Loss("unread", "usage", "a field")),
    HandedOver("sim/openai", "sim/anthropic", (Loss("foreign", "messages[1]", "a thought"),)),
    Compacted(4, (SystemMessage("They dug."),)),
    Stopped("failed", "of\x1b old age"),
]


@pytest.fixture
def kept(here):
    """Put a session into the store that the command reads."""

    def keep(id, acts):
        async def write():
            async with open_store(settings.store()) as store:
                lease = await store.lease(id)
                drafts = [drafted(act, id=f"{id}{at}", at=1_000_000 + at) for at, act in enumerate(acts)]
                await store.release(await store.append(lease, drafts))

        asyncio.run(write())

    return keep


def test_a_session_is_shown_whole_and_nothing_of_it_is_obeyed(here, kept):
    kept("whole", ACTS)
    done = here("show", "who")
    again = json.loads(here("show", "whole", "--json").out)

    assert (0, "") == (done.code, done.err)
    for piece in (
        "session whole\nfailed, sim/openai, ",
        "\nsystem\n  Be\\x1b brief.\n",
        "\nuser\n  Look \\u202ehere\n  [image]\n",
        "\n! asking failed: RateLimited: slow\\x07 down\n",
        "\nsim/anthropic\n  (thinking)\n  A thought\n  of two lines\n  (thinking, which is withheld)\n  I shall \\x1b[2J dig.\n",
        '  > web_search {"query": "spades"} (run by the provider)\n',
        "  > dig\n    depth: 3\n    note: one\n    | two: 2\n  > ask\n    arguments: not JSON\n  lost: a signature (messages[0]); none\n",
        "  ? dig denied: too\\x9b deep\n  ! dig [denied]\n    dig was not run\n    answered in session child\n",
        "  < ask\n    line 0\\x1b\n",
        "    line 39\\x1b\n    (20 more lines: tenuto show --json has them)\n",
        "\nuser\n  Hurry\n  lost: a field (usage)\n",
        "\n[handed over to sim/openai]\n  lost: a thought (messages[1])\n",
        "\n[what stands above entry 4 is summed up from here on]\n\nsystem\n  They dug.\n",
        "\n[failed: of\\x1b old age]\n",
    ):
        assert piece in done.out
    assert len(ACTS) == len(again["entries"]) == again["session"]["head"]
    assert "A thought" not in here("show", "whole", "--hide-thinking").out


def test_a_session_of_a_later_version_is_shown_and_not_resumed(here, kept):
    kept("later", [*ACTS[:2], Strange("dreamt", '{"entry":"dreamt","of":"sheep"}')])
    shown, resumed = here("show", "later"), here("resume", "later")

    assert '[entry 3: dreamt, of a later version] {"entry":"dreamt","of":"sheep"}' in shown.out
    assert 7 == resumed.code
    assert "later version" in resumed.err
    assert 3 == len(json.loads(here("show", "later", "--json").out)["entries"])


def test_sessions_are_listed_by_what_finds_them(here, tenuto_sim, kept):
    """The newest first; a wide title does not break the columns; what is in it is not obeyed."""
    tenuto_sim.script(turn("One."))
    kept("old", [Configured("sim/古\x1b"), Said(UserMessage("古い\x1b session")), Stopped("completed")])
    here("run", "Hello there")
    done, listed = here("sessions"), json.loads(here("sessions", "--json").out)
    lines = done.out.splitlines()
    first = lines[1].split()[0]

    assert (0, 3, "") == (done.code, len(lines), done.err)
    assert re.fullmatch(
        r"01\w{10}  \d{4}-\d\d-\d\d \d\d:\d\d  completed  sim/anthropic  2         Hello there", lines[1]
    )
    assert re.fullmatch(
        r"old           1970-01-01 \d\d:\d\d  completed  sim/古\\x1b     1         古い\\x1b session", lines[2]
    )
    assert (0, "One.\n") == here("resume", first)[:2]
    assert [("completed", 2), ("completed", 1)] == [(one["status"], one["messages"]) for one in listed]
    assert listed[0]["id"].startswith(first)
    assert 2 == len(here("sessions", "-n", "1").out.splitlines())


def test_sub_agents_are_not_mixed_in(here, tenuto_sim):
    """Neither in the list nor as the last one; `--all` has them."""
    tenuto_sim.script(turn(call("helper", {"prompt": "help"})), turn("Helped."), when="please")
    tenuto_sim.script(turn(say("Here.")), when="help")

    async def work():
        helper = AsyncAgent("sim/anthropic")
        async with helper, AsyncAgent("sim/anthropic", tools=[helper.as_tool("helper")]) as agent:
            await agent.session().send("please")

    asyncio.run(work())

    assert [2, 3] == [len(here("sessions", *more).out.splitlines()) for more in ([], ["--all"])]
    assert "Helped." in here("show").out
    assert "Here." in here("show", "~0").out


@pytest.mark.parametrize("verb", ["show", "resume"])
def test_a_session_that_is_not_there_is_code_7(here, kept, verb):
    kept("one", ACTS[:2])
    done = here(verb, "two")

    assert (7, "") == done[:2]
    assert "error: no session is called 'two'\n  tenuto sessions lists what there is\n" == done.err


def test_a_store_that_cannot_be_made_is_one_message(here, tmp_path):
    (tmp_path / "file").touch()
    done = here("run", "Hi", "--store", "file/sessions.db")

    assert 7 == done.code
    assert re.match(r"error: '.*file/sessions\.db' cannot be used: ", done.err)
    assert "Traceback" not in done.err


def test_a_damaged_store_is_one_message(here, tmp_path):
    (tmp_path / "bad.db").write_bytes(b"nothing of ours" * 100)

    for verb in (["sessions"], ["show"], ["resume"], ["run", "Hi"]):
        done = here(*verb, "--store", "bad.db")
        assert (7, "") == done[:2]
        assert "no SQLite database" in done.err
