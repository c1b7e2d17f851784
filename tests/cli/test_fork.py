"""`fork`: a branch that shares what was said, and never takes a call from its result."""

from __future__ import annotations

import json
import re

import pytest

from cli.canned_provider import append_entries
from tenuto import settings
from tenuto.cli.commands.fork import _store_option, command
from tenuto.core.blocks import Text, ToolUse
from tenuto.core.journal import CallFinished, CallStarted, Configured, MessageAdded, ReplyReceived, RunEnded
from tenuto.core.messages import AssistantMessage, ToolResult, UserMessage

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


@pytest.fixture
def kept(here):
    append_entries(settings.store(), "dig", ACTS)
    append_entries(settings.store(), "open", ACTS[:4])


def shown(here, id):
    return json.loads(here("show", id, "--json").out)


def test_fork_shares_the_first_messages(here, kept):
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


def test_fork_continues_by_itself(here, kept, tenuto_sim):
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
        (["dig", "--name", "~1"], "means a session by its position"),
        (["dig", "--name", "taken"], "another session is called 'taken'"),
    ],
)
def test_impossible_fork_leaves_nothing(here, kept, arguments, why):
    here("sessions", "rename", "open", "taken")
    done = here("fork", *arguments)

    assert (2, "") == done[:2]
    assert why in done.err
    assert 2 == len(json.loads(here("sessions", "--json").out))


def test_fork_prints_id_and_resume_hint(tenuto):
    """The id alone, for whoever goes on with it; how to go on names the store if that had to be named."""
    append_entries(tenuto.folder / "my store.db", "dig", ACTS)
    done = tenuto.run("fork", "dig", "--store", "my store.db")

    assert 0 == done.code
    assert re.fullmatch(r"01\w{24}\n", done.out)
    assert f"resume with: tenuto resume {done.out[:12]} --store 'my store.db'\n" == done.err


@pytest.mark.parametrize(
    "place, shown", [("my store.db", " --store 'my store.db'"), ("postgresql://me:secret@localhost/x", " --store ...")]
)
def test_resume_hint_hides_the_password_of_a_store(place, shown):
    with command.make_context("fork", ["dig", "--store", place]):
        assert shown == _store_option(place)
