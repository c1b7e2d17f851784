"""`sessions` and `show`: what is kept, and keeping house."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import sys
from pathlib import Path

import pytest

from cli.canned_provider import append_entries
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
    """Append entries to a session of the store that the command reads."""
    return lambda id, acts: append_entries(settings.store(), id, acts)


def test_show_prints_every_entry_escaped(here, kept):
    kept("whole", ACTS)
    done = here("show", "who", "--full")
    again = json.loads(here("show", "whole", "--json").out)

    assert (0, "") == (done.code, done.err)
    for piece in (
        "session whole\nfailed, sim/openai, ",
        "\nsystem\n  Be\\x1b brief.\n",
        "\nuser (1)\n  Look \\u202ehere\n  [image]\n",
        "\n! request failed: RateLimited: slow\\x07 down\n",
        "\nsim/anthropic (2)\n  (thinking)\n  A thought\n  of two lines\n  (thinking, hidden by the provider)\n  I shall \\x1b[2J dig.\n",
        '  > web_search {"query": "spades"} (run by the provider)\n',
        "  > dig\n    depth: 3\n    note: one\n    | two: 2\n  > ask\n    arguments: not JSON\n  lost: a signature (messages[0]); none\n",
        "  ? dig denied: too\\x9b deep\n  ! dig [denied]\n    dig was not run\n    answered in session child\n",
        "  < ask\n    line 0\\x1b\n",
        "    line 39\\x1b\n    (20 more lines: tenuto show --json has them)\n",
        "\nuser (4)\n  Hurry\n  lost: a field (usage)\n",
        "\n[switched to sim/openai]\n  lost: a thought (messages[1])\n",
        "\n[summary of the entries up to 4]\n\nsystem\n  They dug.\n",
        "\n[failed: of\\x1b old age]\n",
    ):
        assert piece in done.out
    assert len(ACTS) == len(again["entries"]) == again["session"]["head"]
    assert ["a signature", "a field", "a thought"] == [loss["detail"] for loss in again["losses"]]
    assert [] == again["forks"]
    assert "A thought" not in here("show", "whole", "--hide-thinking", "--full").out


def test_session_of_a_later_version_is_not_resumed(here, kept):
    kept("later", [*ACTS[:2], UnknownPayload("dreamt", '{"entry":"dreamt","of":"sheep"}')])
    shown, resumed = here("show", "later"), here("resume", "later")

    assert '[entry 3: dreamt, of a later version] {"entry":"dreamt","of":"sheep"}' in shown.out
    assert 7 == resumed.code
    assert "later version" in resumed.err
    assert 3 == len(json.loads(here("show", "later", "--json").out)["entries"])


def test_sessions_lists_unique_prefixes(here, tenuto_sim, kept):
    """The newest first; a wide title does not break the columns; what is in it is not obeyed."""
    tenuto_sim.script(turn("One."))
    kept("old", [Configured("sim/古\x1b"), MessageAdded(UserMessage("古い\x1b session")), RunEnded("completed")])
    here("run", "Hello there")
    done, listed = here("sessions"), json.loads(here("sessions", "--json").out)
    lines = done.out.splitlines()
    first = lines[1].split()[0]

    assert (0, 3, "") == (done.code, len(lines), done.err)
    assert re.fullmatch(
        r"01\w{10}  \d{4}-\d\d-\d\d \d\d:\d\d  completed  sim/anthropic         2  Hello there", lines[1]
    )
    assert re.fullmatch(
        r"old           1970-01-01 \d\d:\d\d  completed  sim/古\\x1b            1  古い\\x1b session", lines[2]
    )
    assert (0, "One.\n") == here("resume", first)[:2]
    assert [("completed", 2), ("completed", 1)] == [(one["status"], one["messages"]) for one in listed]
    assert listed[0]["id"].startswith(first)
    assert 2 == len(here("sessions", "--limit", "1").out.splitlines())


def test_sub_agents_need_all(here, tenuto_sim):
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


def test_list_is_the_same_from_file_and_json(here, kept, file):
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


@pytest.mark.parametrize(
    "words", [("sessions", x) for x in sessions.command.commands] + [("store", x) for x in store.command.commands]
)
def test_every_subcommand_has_help(here, words):
    done = here(*words, "--help")

    assert 0 == done.code
    assert "--store" in done.out


def test_search_finds_entries(here, kept):
    kept("one", SAID)
    kept("two", ACTS)
    done, none = here("sessions", "search", "oslo", "where"), here("sessions", "search", "Oslo", "Rome")
    odd = json.loads(here("sessions", "search", "look", "--json").out)

    assert (0, "SESSION  ENTRY  TEXT\none          2  Where is Oslo?\n", "") == done
    assert (1, "", "no matching entry\n") == none
    assert [("two", 2)] == [(one["session"], one["seq"]) for one in odd]
    assert "\\u202e" in here("sessions", "search", "look").out


def test_rename_sets_and_removes_a_name(here, kept):
    kept("one", SAID)
    kept("two", SAID)

    assert (0, "session one renamed to trip\n", "") == here("sessions", "rename", "one", "trip")
    assert {"session": "one", "name": "a b"} == json.loads(here("sessions", "rename", "trip", "a b", "--json").out)
    assert ["a b", ""] == [one["name"] for one in json.loads(here("sessions", "--json").out)][::-1]
    assert "did you mean a b?" in here("show", "a bb").err
    for name, why in (
        ("a b", "another session is called 'a b'"),
        ("last", "means a session by its position"),
        ("~3", "means a session by its position"),
        ("x\ny", "is not a name"),
    ):
        done = here("sessions", "rename", "two", name)
        assert (2, "") == done[:2]
        assert why in done.err
    assert (0, "removed the name of session one\n", "") == here("sessions", "rename", "one", "")
    assert 7 == here("show", "a b").code


def test_archive_and_restore(here, kept):
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


def test_rm_without_terminal_needs_yes(here, family):
    done = here("sessions", "rm", "other", stdin="")

    assert (2, "") == done[:2]
    assert "pass --yes" in done.err
    assert 4 == len(ids(here("sessions", "--json")))


def test_rm_keeps_sessions_with_forks(here, family):
    refused = here("sessions", "rm", "other", "root", "-y")

    assert (7, "") == refused[:2]
    assert "error: session root has a fork that shares its entries: child\n" in refused.err
    assert "nothing was deleted" in refused.err
    assert 4 == len(ids(here("sessions", "--json")))
    assert ["root", "child", "grandchild"] == json.loads(
        here("sessions", "rm", "root", "--forks", "--yes", "--json").out
    )["removed"]
    assert ["other"] == ids(here("sessions", "--json"))


def test_rm_deletes_forks_before_parents(here, family):
    done = here("sessions", "rm", "root", "grandchild", "child", "root", "-y")

    assert (0, "") == (done.code, done.err)
    assert ["grandchild", "child", "root"] == [line.split()[1] for line in done.out.splitlines()]
    assert "deleted root  Where is Oslo?\n" in done.out
    assert 7 == here("sessions", "rm", "root", "-y").code


def test_rm_prints_deleted_sessions_despite_an_error(here, kept, file):
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


def test_store_stats(here, kept, file):
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


def test_store_verify_reports_damage(here, kept, file):
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


def test_store_gc_repair_and_backup(here, kept, file, tmp_path):
    kept("one", [*SAID[:1], MessageAdded(UserMessage("x" * 100_000))])
    kept("two", SAID)
    here("sessions", "rm", "one", "-y")
    copy = tmp_path / "copy.db"

    assert re.fullmatch(r"deleted 100,\d+ bytes\n", here("store", "gc").out)
    assert '{"bytes":0}\n' == here("store", "gc", "--json").out
    assert (0, "1 session: OK\n", "indexed 1 entry\n") == here("store", "verify", "--repair")
    assert re.fullmatch(rf"{re.escape(str(copy))}: [\d,]+ bytes\n", here("store", "backup", "copy.db").out)
    assert ["two"] == ids(here("sessions", "--json", "--store", "copy.db"))
    again = here("store", "backup", "copy.db")
    assert (7, "") == again[:2]
    assert "already exists and is not overwritten" in again.err
    assert 7 == here("store", "backup", "x.db", "--store", "none.db").code
    assert not (tmp_path / "none.db").exists()


def test_store_backup_while_a_session_is_written(here, file):
    drafts = [make_draft(payload, id=f"d{at}", time_ms=1_000_000 + at) for at, payload in enumerate(SAID)]

    async def play(store):
        lease = await store.append(await store.lease("busy"), drafts[:2])
        done = await asyncio.to_thread(here, "store", "backup", "copy.db")
        await store.release(await store.append(lease, drafts[2:]))
        return done

    assert 0 == stored(play).code
    assert [2, 3] == [
        len(json.loads(here("show", "busy", "--json", "--store", place).out)["entries"])
        for place in ("copy.db", str(file))
    ]
    assert (0, "1 session: OK\n", "") == here("store", "verify", "--store", "copy.db")


def test_store_restore(here, kept, file, tmp_path):
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

    assert ("branched", "forked") == (first["name"], first["status"])
    assert first["id"] == json.loads(here("export", "last", "--format", "jsonl").out.splitlines()[0])["session"]


# --- as a process, and on a terminal ----------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_rm_asks_on_a_terminal(tenuto):
    for id in ("one", "two"):
        append_entries(tenuto.store, id, SAID)
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
