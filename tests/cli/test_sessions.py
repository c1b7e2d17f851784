"""`sessions`, `show`, `fork` and `store`."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import sys

import pytest

from cli.canned_provider import CALLED, SAID, append_entries, every_entry
from cli.conftest import with_store
from tenuto import settings
from tenuto.agent.agent import AsyncAgent
from tenuto.cli.commands.fork import _store_option
from tenuto.cli.commands.fork import command as fork
from tenuto.core.journal import Configured, MessageAdded, RunEnded, UnknownPayload
from tenuto.core.messages import UserMessage
from tenuto.testing import call, say, turn


@pytest.fixture
def kept(here):
    """Append entries to a session of the store that the command reads."""
    return lambda id, entries=SAID: append_entries(settings.store(), id, entries)


@pytest.fixture
def file(here, tmp_path, monkeypatch):
    """Use a store in a file, instead of one in memory."""
    monkeypatch.setenv("TENUTO_STORE", str(tmp_path / "sessions.db"))
    return tmp_path / "sessions.db"


def listed(here, *options):
    return json.loads(here("sessions", "--json", *options).out)


def ids(here, *options):
    return [one["id"] for one in listed(here, *options)]


def shown(here, id, *options):
    return json.loads(here("show", id, "--json", *options).out)


def test_show_prints_every_entry_escaped(here, kept):
    kept("whole", every_entry("\x1b"))
    done, document = here("show", "who", "--full"), shown(here, "whole")

    assert (0, "") == (done.code, done.err)
    for piece in (
        "session whole\nfailed, sim/\\x1b, ",
        "\nsystem\n  \\x1b\n",
        "\nuser (1)\n  Look \\x1b\n  [image]\n",
        "\n! request failed: RateLimited: \\x1b\n",
        "\n  (thinking)\n  A thought \\x1b\n  of two lines\n  (thinking, hidden by the provider)\n  I dig. \\x1b\n",
        '  > web_search {"query": "spades"} (run by the provider)\n',
        "  > dig\\x1b\n    depth: 3\n    note: one\n    | two: \\x1b\n  > ask\n    arguments: \\x1b\n  lost: \\x1b (messages[0]);",
        "  ? dig\\x1b denied: \\x1b\n  ! dig\\x1b [denied]\n    \\x1b\n    answered in session child\n",
        "    line \\x1b\n    (20 more lines: tenuto show --json has them)\n",
        "\nuser (4)\n  Hurry\n  lost: \\x1b (usage)\n",
        "\n[switched to sim/\\x1b]\n  lost: a thought (messages[1])\n",
        "\n[summary of the entries up to 4]\n\nsystem\n  \\x1b\n",
        '\n[entry 17: dreamt, of a later version] {"entry":"dreamt","of":"sheep"}',
        "\n[failed: \\x1b]\n",
    ):
        assert piece in done.out
    assert 18 == len(document["entries"]) == document["session"]["head"]
    assert ["\x1b", "\x1b", "a thought"] == [loss["detail"] for loss in document["losses"]]
    assert [] == document["forks"]
    assert "A thought" not in here("show", "whole", "--hide-thinking", "--full").out
    kept("later", [*SAID[:2], UnknownPayload("dreamt", '{"entry":"dreamt"}')])
    resumed = here("resume", "later")
    assert (7, True) == (resumed.code, "later version" in resumed.err)


def test_sessions_lists_unique_prefixes(here, tenuto_sim, kept):
    """A wide title does not break the columns."""
    tenuto_sim.script(turn("One."))
    kept("old", [Configured("sim/古\x1b"), MessageAdded(UserMessage("古い\x1b session")), RunEnded("completed")])
    here("run", "Hello there")
    _, new, old = here("sessions").out.splitlines()

    assert re.fullmatch(r"01\w{10}  [-\d]{10} \d\d:\d\d  completed  sim/anthropic         2  Hello there", new)
    assert re.fullmatch(r"old           1970-.* completed  sim/古\\x1b            1  古い\\x1b session", old)
    assert (0, "One.\n") == here("resume", new.split()[0])[:2]
    assert [("completed", 2), ("completed", 1)] == [(one["status"], one["messages"]) for one in listed(here)]


def test_sub_agents_need_all(here, tenuto_sim):
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


def test_list_is_the_same_from_file_and_json(here, kept, file):
    kept("one")
    kept("two")
    listing = here("sessions").out

    assert listing == here("sessions", "--limit", "5").out == here("sessions", "--all").out
    assert (["two", "one"], ["two"]) == (ids(here), ids(here, "--limit", "1"))
    file.rename(file.with_name("other.db"))
    assert listing == here("sessions", "--store", "other.db").out
    assert "no sessions yet" in here("sessions").err
    assert [] == listed(here)
    assert not file.exists()


def test_search_rename_and_archive(here, kept):
    for id in ("one", "two", "three"):
        kept(id)
    kept("evil", every_entry("\u202e"))
    found = json.loads(here("sessions", "search", "look", "--json").out)

    assert "one          2  Where is Oslo?\n" in here("sessions", "search", "oslo", "where").out
    assert (1, "", "no matching entry\n") == here("sessions", "search", "Oslo", "Rome")
    assert [("evil", 2)] == [(one["session"], one["seq"]) for one in found]
    assert "\\u202e" in here("sessions", "search", "look").out
    assert {"session": "evil", "name": "a b"} == json.loads(here("sessions", "rename", "evil", "a b", "--json").out)
    assert "did you mean a b?" in here("show", "a bb").err
    assert (0, "removed the name of session evil\n", "") == here("sessions", "rename", "a b", "")
    assert (0, "archived two\narchived one\narchived three\n", "") == here("sessions", "archive", "~1", "one", "three")
    assert ["evil"] == ids(here)
    restored = here("sessions", "archive", "one", "--undo", "--json")
    assert {"sessions": ["one"], "archived": False} == json.loads(restored.out)
    assert (0, "restored two\n") == here("sessions", "archive", "last", "--undo")[:2]
    assert ["evil", "two", "one"] == ids(here)


@pytest.fixture
def family(here, kept):
    """A session, a fork of it, a fork of that, and another."""
    kept("root")
    kept("other")
    with_store(lambda store: store.fork("root", at=2, id="child"))
    with_store(lambda store: store.fork("child", at=2, id="grandchild"))


def test_rm_deletes_forks_before_parents(here, family):
    """A session with forks is kept unless they are deleted too."""
    refused = here("sessions", "rm", "other", "root", "-y")

    assert (7, "", 4) == (*refused[:2], len(listed(here)))
    assert "error: session root has a fork that shares its entries: child\n" in refused.err
    done = here("sessions", "rm", "child", "grandchild", "child", "-y")
    assert (0, "") == (done.code, done.err)
    assert ["grandchild", "child"] == [line.split()[1] for line in done.out.splitlines()]
    deleted = json.loads(here("sessions", "rm", "root", "--forks", "--yes", "--json").out)
    assert ["root"] == deleted["removed"]
    assert ["other"] == ids(here)


def test_rm_prints_deleted_sessions_despite_an_error(here, kept, file):
    kept("one")
    kept("two")

    async def remove(store):
        await store.lease("two")
        return await asyncio.to_thread(here, "sessions", "rm", "one", "two", "-y")

    done = with_store(remove)

    assert (7, "deleted one  Where is Oslo?\n") == done[:2]
    assert "session two is in use by process" in done.err
    assert ["two"] == ids(here)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize(
    "answer, code, outcome", [("n", 1, "nothing was deleted\n"), ("y", 0, "deleted one  Where is Oslo?\n")]
)
def test_rm_asks_on_a_terminal(tenuto, answer, code, outcome):
    append_entries(tenuto.store, "one", SAID)
    asked = tenuto.terminal("sessions", "rm", "one")
    asked.expect(r"\[y/N\]: ")
    asked.type(f"{answer}\n")

    assert (code, f"  one  Where is Oslo?\ndelete this session? [y/N]: {answer}\n{outcome}") == asked.end()


def test_fork_shares_the_first_messages(here, kept):
    kept("dig", CALLED)
    before = shown(here, "dig")
    whole, three = here("fork", "dig"), here("fork", "dig", "--at", "3", "--name", "half", "--json")
    made, half = json.loads(three.out), shown(here, "half")
    after = shown(here, "dig")

    assert (0, "") == (whole.code, three.err)
    assert re.fullmatch(r"01\w{24}\n", whole.out)
    assert f"resume with: tenuto resume {whole.out[:12]}\n" == whole.err
    copied = [[entry["digest"] for entry in one["entries"]] for one in (before, shown(here, whole.out.strip()))]
    assert copied[0] == copied[1]
    assert {"session": half["session"]["session"], "name": "half", "parent": "dig", "forked_at": 6} == made
    assert before["entries"][:6] == half["entries"]
    assert before["entries"] == after["entries"]
    assert sorted([whole.out.strip(), made["session"]]) == after["forks"]
    assert f"\nforks: {', '.join(after['forks'])}\n" in here("show", "dig").out
    assert ", forked from dig\n" in here("show", "half").out


def test_fork_is_the_last_session_and_continues_by_itself(here, kept, tenuto_sim):
    tenuto_sim.script(turn("Deeper."))
    kept("dig", CALLED)
    kept("other")
    here("fork", "dig", "--at", "1", "-n", "again")
    first = listed(here)[0]

    assert ("again", "forked") == (first["name"], first["status"])
    assert first["id"] == json.loads(here("export", "last", "--format", "jsonl").out.splitlines()[0])["session"]
    assert (0, "Deeper.\n") == here("resume", "again")[:2]
    assert {"again": 2, "": 4} == {one["name"]: one["messages"] for one in listed(here) if one["id"] != "other"}


@pytest.mark.parametrize(
    "place, option", [("my store.db", " --store 'my store.db'"), ("postgresql://me:secret@localhost/x", " --store ...")]
)
def test_resume_hint_hides_the_password_of_a_store(place, option):
    with fork.make_context("fork", ["dig", "--store", place]):
        assert option == _store_option(place)


def test_store_commands(here, kept, file):
    """The tests of the store check what is copied and deleted."""
    nothing = here("store", "stats")
    assert (0, "", True) == (*nothing[:2], "no sessions yet" in nothing.err)
    kept("large", [*SAID[:1], MessageAdded(UserMessage("x" * 100_000))])
    kept("two")
    here("sessions", "rm", "large", "-y")
    counted = json.loads(here("store", "stats", "--json").out)
    assert (1, 3) == (counted["sessions"], counted["entries"])
    assert re.match(
        r"sessions  1\nentries   3\nbytes     [\d,]+\nblobs  .*\nbackend   SQLite ", here("store", "stats").out
    )
    assert re.fullmatch(r"deleted 100,\d+ bytes\n", here("store", "gc").out)
    assert '{"bytes":0}\n' == here("store", "gc", "--json").out
    assert (0, "1 session: OK\n", "indexed 1 entry\n") == here("store", "verify", "--repair")

    assert re.fullmatch(r"/.*/copy.db: [\d,]+ bytes\n", here("store", "backup", "copy.db").out)
    again = here("store", "backup", "copy.db")
    assert (7, "", True) == (*again[:2], "already exists and is not overwritten" in again.err)
    kept("three")
    done = here("store", "restore", "copy.db", "--yes")
    assert (0, "", True) == (done.code, done.err, "copy.db" in done.out)
    assert ["two"] == ids(here)
    new = here("store", "restore", "copy.db", "--store", "new.db", "--json")
    assert {"file": "copy.db", "store": "new.db"} == json.loads(new.out)


def test_store_verify_reports_damage(here, kept, file):
    kept("one")
    kept("two")
    sound = here("store", "verify"), here("store", "verify", "two", "~0", "--json")
    db = sqlite3.connect(file)
    db.execute("UPDATE entries SET body = CAST(replace(body, 'Oslo', 'Rome') AS BLOB) WHERE session = 'one'")
    db.commit()
    db.close()
    done, one = here("store", "verify"), here("store", "verify", "one", "--json")

    assert ((0, "2 sessions: OK\n", ""), (0, '{"sessions":1,"faults":[]}\n', "")) == sound
    assert 7 == done.code == one.code
    assert done.out.startswith("session one, entry 2: is damaged: its digest is ")
    assert "error: 1 problem in 2 sessions\n  restore a backup" in done.err
    assert [2] == [fault["seq"] for fault in json.loads(one.out)["faults"]]
    assert 0 == here("store", "verify", "two").code
