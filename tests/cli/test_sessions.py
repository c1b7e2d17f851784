"""`sessions` and `show`: what is kept, and keeping house."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import sys
from pathlib import Path

import pytest

from tenuto import settings
from tenuto.agent.agent import AsyncAgent
from tenuto.cli.commands import sessions, store
from tenuto.core.blocks import Image, Reasoning, ServerToolUse, Text, ToolUse
from tenuto.core.journal import (
    ApprovalDecided,
    ApprovalRequested,
    CallFinished,
    CallStarted,
    Compacted,
    Configured,
    HandedOver,
    LossRecorded,
    MessageAdded,
    ReplyReceived,
    RequestFailed,
    RequestStarted,
    RunEnded,
    SteeringAdded,
    SubSessionLinked,
    UnknownPayload,
)
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import AssistantMessage, SystemMessage, ToolResult, UserMessage
from tenuto.core.stored import make_draft
from tenuto.errors import StoreError
from tenuto.store.open import open_store
from tenuto.testing import call, say, turn

ACTS = [
    Configured("sim/anthropic", system="Be\x1b brief."),
    MessageAdded(UserMessage((Text("Look \u202ehere"), Image("aGk=", "image/png")))),
    RequestStarted("sim/anthropic"),
    RequestFailed("RateLimited", "slow\x07 down"),
    RequestStarted("sim/anthropic"),
    ReplyReceived(
        AssistantMessage(
            (
                Reasoning("A thought\nof two lines"),
                Reasoning(""),
                Text("I shall \x1b[2J dig."),
                ServerToolUse("s1", "web_search", '{"query": "spades"}'),
                ToolUse("c1", "dig", '{"depth": 3, "note": "one\\ntwo: 2"}'),
                ToolUse("c2", "ask", "not JSON", args_error="no"),
            ),
            stop_reason="tool_calls",
        ),
        losses=(Loss("foreign", Location(0), "a signature", "none"),),
    ),
    ApprovalRequested("c1", 0, "dig"),
    ApprovalDecided("c1", 0, allowed=False, reason="too\x9b deep"),
    CallFinished(ToolResult("c1", "dig was not run", is_error=True), 0, outcome="denied"),
    SubSessionLinked("child", "c2", 1),
    CallStarted("c2", 1, "ask"),
    CallFinished(ToolResult("c2", "\n".join(f"line {n}\x1b" for n in range(60))), 1),
    SteeringAdded(UserMessage("Hurry")),
    LossRecorded(Loss("unread", Location(path="usage"), "a field")),
    HandedOver("sim/openai", "sim/anthropic", (Loss("foreign", Location(1), "a thought"),)),
    Compacted(4, (SystemMessage("They dug."),)),
    RunEnded("failed", "of\x1b old age"),
]


@pytest.fixture
def kept(here):
    """Put a session into the store that the command reads."""

    def keep(id, acts):
        async def write():
            async with open_store(settings.store()) as store:
                lease = await store.lease(id)
                drafts = [make_draft(act, id=f"{id}{at}", time_ms=1_000_000 + at) for at, act in enumerate(acts)]
                await store.release(await store.append(lease, drafts))

        asyncio.run(write())

    return keep


def test_a_session_is_shown_whole_and_nothing_of_it_is_obeyed(here, kept):
    kept("whole", ACTS)
    done = here("show", "who", "--full")
    again = json.loads(here("show", "whole", "--json").out)

    assert (0, "") == (done.code, done.err)
    for piece in (
        "session whole\nfailed, sim/openai, ",
        "\nsystem\n  Be\\x1b brief.\n",
        "\nuser (1)\n  Look \\u202ehere\n  [image]\n",
        "\n! asking failed: RateLimited: slow\\x07 down\n",
        "\nsim/anthropic (2)\n  (thinking)\n  A thought\n  of two lines\n  (thinking, which is withheld)\n  I shall \\x1b[2J dig.\n",
        '  > web_search {"query": "spades"} (run by the provider)\n',
        "  > dig\n    depth: 3\n    note: one\n    | two: 2\n  > ask\n    arguments: not JSON\n  lost: a signature (messages[0]); none\n",
        "  ? dig denied: too\\x9b deep\n  ! dig [denied]\n    dig was not run\n    answered in session child\n",
        "  < ask\n    line 0\\x1b\n",
        "    line 39\\x1b\n    (20 more lines: tenuto show --json has them)\n",
        "\nuser (4)\n  Hurry\n  lost: a field (usage)\n",
        "\n[handed over to sim/openai]\n  lost: a thought (messages[1])\n",
        "\n[entries up to 4 are summarized; from here on]\n\nsystem\n  They dug.\n",
        "\n[failed: of\\x1b old age]\n",
    ):
        assert piece in done.out
    assert len(ACTS) == len(again["entries"]) == again["session"]["head"]
    assert ["a signature", "a field", "a thought"] == [loss["detail"] for loss in again["losses"]]
    assert [] == again["forks"]
    assert "A thought" not in here("show", "whole", "--hide-thinking", "--full").out


def test_a_session_of_a_later_version_is_shown_and_not_resumed(here, kept):
    kept("later", [*ACTS[:2], UnknownPayload("dreamt", '{"entry":"dreamt","of":"sheep"}')])
    shown, resumed = here("show", "later"), here("resume", "later")

    assert '[entry 3: dreamt, of a later version] {"entry":"dreamt","of":"sheep"}' in shown.out
    assert 7 == resumed.code
    assert "later version" in resumed.err
    assert 3 == len(json.loads(here("show", "later", "--json").out)["entries"])


def test_sessions_are_listed_by_what_finds_them(here, tenuto_sim, kept):
    """The newest first; a wide title does not break the columns; what is in it is not obeyed."""
    tenuto_sim.script(turn("One."))
    kept("old", [Configured("sim/古\x1b"), MessageAdded(UserMessage("古い\x1b session")), RunEnded("completed")])
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
    assert 2 == len(here("sessions", "--limit", "1").out.splitlines())


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
    assert "error: no session is called 'two'\n  list them with tenuto sessions\n" == done.err


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
        assert "not a SQLite database" in done.err


# --- the group --------------------------------------------------------------------------------------------------------

SAID = [Configured("sim/anthropic"), MessageAdded(UserMessage("Where is Oslo?")), RunEnded("completed")]


@pytest.fixture
def file(here, tmp_path, monkeypatch):
    """A file for the store, instead of a memory."""
    monkeypatch.setenv("TENUTO_STORE", str(tmp_path / "sessions.db"))
    return tmp_path / "sessions.db"


def stored(act):
    """Do something with the store that the command reads."""

    async def play():
        async with open_store(settings.store()) as store:
            return await act(store)

    return asyncio.run(play())


def ids(done):
    assert (0, "") == (done.code, done.err)
    return [one["id"] for one in json.loads(done.out)]


def test_the_list_is_what_it_is_without_a_word(here, kept, file):
    """A file and a memory are listed alike."""
    kept("one", SAID)
    kept("two", SAID)

    assert here("sessions") == here("sessions", "--limit", "5") == here("sessions", "--all")
    assert ["two", "one"] == ids(here("sessions", "--json"))
    assert ["two"] == ids(here("sessions", "--limit", "1", "--json"))
    listed = here("sessions").out
    file.rename(file.with_name("other.db"))
    assert listed == here("sessions", "--store", "other.db").out
    assert "no sessions yet" in here("sessions").err
    assert "[]\n" == here("sessions", "--json").out
    assert not file.exists()


def test_a_word_that_is_none_names_near_ones(here):
    done = here("sessions", "serch", "Oslo")

    assert (2, "") == done[:2]
    assert "unknown command 'serch'; did you mean search?" in done.err


@pytest.mark.parametrize(
    "words", [("sessions", x) for x in sessions.command.commands] + [("store", x) for x in store.command.commands]
)
def test_every_subcommand_has_help_with_examples(here, words):
    done = here(*words, "--help")

    assert 0 == done.code
    assert f"Examples:\n    tenuto {words[0]}" in done.out
    assert "--store" in done.out


def test_what_was_said_is_found(here, kept):
    kept("one", SAID)
    kept("two", ACTS)
    done, none = here("sessions", "search", "oslo", "where"), here("sessions", "search", "Oslo", "Rome")
    odd = json.loads(here("sessions", "search", "look", "--json").out)

    assert (0, "SESSION  ENTRY  TEXT\none      2      Where is Oslo?\n", "") == done
    assert (1, "", "no matching entry\n") == none
    assert [("two", 2)] == [(one["session"], one["seq"]) for one in odd]
    assert "\\u202e" in here("sessions", "search", "look").out


def test_a_name_is_given_and_taken_off(here, kept):
    kept("one", SAID)
    kept("two", SAID)

    assert (0, "session one renamed to trip\n", "") == here("sessions", "rename", "one", "trip")
    assert {"session": "one", "name": "a b"} == json.loads(here("sessions", "rename", "trip", "a b", "--json").out)
    assert ["a b", ""] == [one["name"] for one in json.loads(here("sessions", "--json").out)][::-1]
    assert "did you mean a b?" in here("show", "a bb").err
    for name, why in (
        ("a b", "another session is called 'a b'"),
        ("last", "by its place"),
        ("~3", "by its place"),
        ("x\ny", "is not a name"),
    ):
        done = here("sessions", "rename", "two", name)
        assert (2, "") == done[:2]
        assert why in done.err
    assert (0, "removed the name of session one\n", "") == here("sessions", "rename", "one", "")
    assert 7 == here("show", "a b").code


def test_sessions_are_put_away_and_fetched_back(here, kept):
    """All of them are found before one is touched."""
    for id in ("one", "two", "three"):
        kept(id, SAID)

    assert 7 == here("sessions", "archive", "one", "none").code
    assert 3 == len(ids(here("sessions", "--json")))
    assert (0, "archived two\narchived one\n", "") == here("sessions", "archive", "~0", "one", "last")
    assert ["three"] == ids(here("sessions", "--json"))
    assert {"sessions": ["one"], "archived": False} == json.loads(
        here("sessions", "archive", "one", "--undo", "--json").out
    )
    assert ["three", "one"] == ids(here("sessions", "--json"))
    refused = here("sessions", "archive", "one", "--undo")
    assert (2, True) == (refused.code, "session one is not archived" in refused.err)
    assert (0, "restored two\n") == here("sessions", "archive", "last", "--undo")[:2]
    assert (2, True) == (
        (none := here("sessions", "archive", "last", "--undo")).code,
        "no session is archived" in none.err,
    )


# --- removing ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def family(here, kept):
    """A session, a fork of it, a fork of that, and another."""
    kept("root", SAID)
    kept("other", SAID)
    stored(lambda store: store.fork("root", at=2, id="child"))
    stored(lambda store: store.fork("child", at=2, id="grandchild"))


def test_nothing_is_removed_without_a_word_for_it(here, family):
    done = here("sessions", "rm", "other", stdin="")

    assert (2, "") == done[:2]
    assert "pass --yes" in done.err
    assert 4 == len(ids(here("sessions", "--json")))


def test_what_has_forks_stays_unless_they_go_with_it(here, family):
    refused = here("sessions", "rm", "other", "root", "-y")

    assert (7, "") == refused[:2]
    assert "error: session root has a fork that shares its entries: child\n" in refused.err
    assert "nothing was deleted" in refused.err
    assert 4 == len(ids(here("sessions", "--json")))
    assert ["root", "child", "grandchild"] == json.loads(
        here("sessions", "rm", "root", "--forks", "--yes", "--json").out
    )["removed"]
    assert ["other"] == ids(here("sessions", "--json"))


def test_forks_that_are_named_go_before_what_they_were_forked_off(here, family):
    done = here("sessions", "rm", "root", "grandchild", "child", "root", "-y")

    assert (0, "") == (done.code, done.err)
    assert ["grandchild", "child", "root"] == [line.split()[1] for line in done.out.splitlines()]
    assert "deleted root  Where is Oslo?\n" in done.out
    assert 7 == here("sessions", "rm", "root", "-y").code


def test_what_went_is_told_although_something_else_did_not(here, kept, file):
    for id in ("one", "two"):
        kept(id, SAID)

    async def play(store):
        await store.lease("two")
        return await asyncio.to_thread(here, "sessions", "rm", "one", "two", "-y")

    done = stored(play)

    assert (7, "deleted one  Where is Oslo?\n") == done[:2]
    assert "session two is in use by process" in done.err
    assert ["two"] == ids(here("sessions", "--json"))


# --- the store itself -------------------------------------------------------------------------------------------------


def test_how_much_there_is(here, kept, file):
    nothing = here("store", "stats")
    kept("one", SAID)
    counted = json.loads(here("store", "stats", "--json").out)

    assert (0, "") == nothing[:2]
    assert "no sessions yet" in nothing.err
    assert (1, 3) == (counted["sessions"], counted["entries"])
    assert re.match(
        r"sessions  1\nentries   3\nbytes     [\d,]+\nblobs     0 with 0 bytes\nbackend   SQLite ",
        here("store", "stats").out,
    )


def test_damage_is_told_with_its_place_and_code_7(here, kept, file):
    kept("one", SAID)
    kept("two", SAID)
    sound = here("store", "verify"), here("store", "verify", "two", "~0", "--json")
    db = sqlite3.connect(file)
    db.execute("UPDATE entries SET body = CAST(replace(body, 'Oslo', 'Rome') AS BLOB) WHERE session = 'one'")
    db.execute("UPDATE entries SET body = 'words' WHERE session = 'one' AND seq = 3")
    db.commit()
    db.close()
    done, one = here("store", "verify"), here("store", "verify", "one", "--json")

    assert ((0, "2 sessions: OK\n", ""), (0, '{"sessions":1,"faults":[]}\n', "")) == sound
    assert 7 == done.code == one.code
    assert re.fullmatch(
        r"session one, entry 3: has a body that is not bytes: .*\nsession one, entry 2: is damaged: its digest is .*\n",
        done.out,
    )
    assert "error: 2 problems in 2 sessions\n  restore a backup" in done.err
    assert [3, 2] == [fault["seq"] for fault in json.loads(one.out)["faults"]]
    assert 0 == here("store", "verify", "two").code
    assert 7 == here("store", "verify", "two", "none").code


def test_what_nothing_refers_to_goes_and_the_rest_can_be_copied(here, kept, file, tmp_path):
    kept("one", [*SAID[:1], MessageAdded(UserMessage("x" * 100_000))])
    kept("two", SAID)
    here("sessions", "rm", "one", "-y")
    copy = tmp_path / "copy.db"

    assert re.fullmatch(r"deleted 100,\d+ bytes\n", here("store", "gc").out)
    assert '{"bytes":0}\n' == here("store", "gc", "--json").out
    assert "indexed 1 entry\n" == here("store", "reindex").out
    assert re.fullmatch(rf"{re.escape(str(copy))}: [\d,]+ bytes\n", here("store", "backup", "copy.db").out)
    assert ["two"] == ids(here("sessions", "--json", "--store", "copy.db"))
    again = here("store", "backup", "copy.db")
    assert (7, "") == again[:2]
    assert "already exists and is not overwritten" in again.err
    assert 7 == here("store", "backup", "x.db", "--store", "none.db").code
    assert not (tmp_path / "none.db").exists()


def test_restore_replaces_the_store_by_a_backup(here, kept, file, tmp_path):
    kept("one", SAID)
    here("store", "backup", "copy.db")
    kept("two", SAID)
    Path(f"{file}-wal").write_bytes(b"left by a process that was killed")
    refused = here("store", "restore", "copy.db")

    assert 2 == refused.code
    assert "--yes" in refused.err
    assert {"one", "two"} == {*ids(here("sessions", "--json"))}
    done = here("store", "restore", "copy.db", "--yes")
    assert (0, "") == (done.code, done.err)
    assert "copy.db" in done.out
    assert ["one"] == ids(here("sessions", "--json"))
    assert 0 == here("store", "verify").code
    assert {"file": "copy.db", "store": "new.db"} == json.loads(
        here("store", "restore", "copy.db", "--store", "new.db", "--json").out
    )
    assert ["one"] == ids(here("sessions", "--json", "--store", "new.db"))
    for bad in ("nowhere.db", "."):
        assert 7 == here("store", "restore", bad, "--yes").code
    assert ["one"] == ids(here("sessions", "--json"))


def test_last_is_the_fork_after_a_fork(here, kept):
    kept("one", SAID)
    kept("two", SAID)
    here("fork", "one", "-n", "branched")
    [first, *_] = json.loads(here("sessions", "--json").out)

    assert ("branched", "new") == (first["name"], first["status"])
    assert first["id"] == json.loads(here("export", "last", "--format", "jsonl").out.splitlines()[0])["session"]


def test_a_store_that_fails_is_one_message(here, kept, monkeypatch):
    kept("one", SAID)

    async def fail(*_, **__):
        raise StoreError("the disk reports an error")

    monkeypatch.setattr("tenuto.store.memory.MemoryStore.verify", fail)
    done = here("store", "verify")

    assert (7, "", "error: the disk reports an error\n") == done


# --- as a process, and on a terminal ----------------------------------------------------------------------------------


def put(tenuto, **sessions):
    async def play():
        async with open_store(tenuto.store) as store:
            for id, acts in sessions.items():
                lease = await store.lease(id)
                drafts = [make_draft(act, id=f"{id}{at}", time_ms=1_000_000 + at) for at, act in enumerate(acts)]
                await store.release(await store.append(lease, drafts))

    asyncio.run(play())


def test_the_list_and_a_session_through_a_pipe(tenuto):
    put(tenuto, one=SAID, two=ACTS)
    listed, shown = tenuto.run("sessions", "--limit", "1", "--json"), tenuto.run("show", "one")

    assert ["two"] == ids(listed)
    assert (0, "") == (shown.code, shown.err)
    assert "\nuser (1)\n  Where is Oslo?\n\n[completed]\n" in shown.out


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_who_sits_at_a_terminal_is_asked_before_something_is_removed(tenuto):
    put(tenuto, one=SAID, two=SAID)
    asked = tenuto.terminal("sessions", "rm", "one", "two")
    asked.expect(r"\[y/N\]: ")
    asked.type("n\n")
    no = asked.end()
    asked = tenuto.terminal("sessions", "rm", "one")
    asked.expect(r"\[y/N\]: ")
    asked.type("y\n")
    yes = asked.end()

    assert (
        1,
        "  one  Where is Oslo?\n  two  Where is Oslo?\ndelete these 2 sessions? [y/N]: n\nnothing was deleted\n",
    ) == no
    assert (0, "  one  Where is Oslo?\ndelete this session? [y/N]: y\ndeleted one  Where is Oslo?\n") == yes


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_session_on_a_terminal(tenuto):
    put(tenuto, two=ACTS)
    terminal = tenuto.terminal("show", "two", "--full")
    code, screen = terminal.end()

    assert 0 == code
    assert "\x1b[1muser (1)\x1b[0m\r\n" in terminal.seen
    assert "user (1)\n  Look \\u202ehere\n  [image]\n\n! asking failed: RateLimited: slow\\x07 down\n" in screen
