"""Leases and budgets; forks, lists, finding and searching; names, deleting, collecting unused data, and finding damage."""

from __future__ import annotations

import asyncio
from tempfile import NamedTemporaryFile
from typing import Any

import msgspec
import pytest

from tenuto.core.inbox import Cancel
from tenuto.core.journal import (
    CallStarted,
    Configured,
    EntryPayload,
    MessageAdded,
    MetadataChanged,
    RequestStarted,
    RunEnded,
    SteeringAdded,
    session_meta_of,
)
from tenuto.core.messages import UserMessage, user
from tenuto.errors import BudgetExceeded, LeaseLost, SessionInUse, SessionNotFound, StoreCorrupt, StoreError
from tenuto.store.protocol import BLOB, BudgetChange, BudgetMember, Lease, SessionPage, Store
from tenuto.testing.store_suite.helpers import (
    StoreTests,
    add,
    answer,
    draft,
    expect_error,
    outcome,
    question,
    reply,
    result,
    same,
    start,
    turn,
    write,
)

RUN: tuple[EntryPayload, ...] = (Configured("m"), question())
STATUSES: dict[str, tuple[str, str, tuple[EntryPayload, ...]]] = {
    "configured": ("new", "", (Configured("m"),)),
    "requested": ("interrupted", "", (*RUN, RequestStarted("m"))),
    "cancelling": ("interrupted", "", (*RUN, RunEnded("cancelling"))),
    "limited": ("waiting", "limit", (*RUN, RunEnded("limit", "tokens"))),
    "unapproved": ("waiting", "approval", (*RUN, RunEnded("waiting", "approval"))),
    "approved": ("interrupted", "", (*RUN, RunEnded("waiting", "approval"), CallStarted("c", 0))),
    "full": ("waiting", "context", (*RUN, RunEnded("waiting", waiting_for="context"))),
    "input": ("waiting", "input", (*RUN, RunEnded("waiting", "a name", waiting_for="input"))),
    "completed": ("completed", "", (*RUN, answer(), RunEnded("completed"))),
    "continued": ("interrupted", "", (*RUN, RunEnded("completed"), question("And now?"))),
    "cancelled": ("cancelled", "", (*RUN, RunEnded("cancelling"), RunEnded("cancelled"))),
    "failed": ("failed", "", (*RUN, RunEnded("failed", "BadRequest"))),
    "later-version": ("failed", "", (*RUN, RunEnded("a reason of a later version"))),
}
"""Entries of a session, with the status and the reason that a list shows."""
SYNTAX = (
    *('"', "'", "AND", "OR", "NOT", "NEAR(a b)", "*", "rain*", "-", "a-b", "c:d", "(", ")", "&", "|", "!", ":*", "<->"),
    *("'); DROP TABLE sessions; --", "\\", "%", "_", "{}", "^cats", "a\0b", "\ud800", "", " ", "\u2028"),
)


async def list_ids(store: Store, **options: Any) -> list[str]:
    """Return the ids of all pages."""
    page = await store.sessions(**options)
    ids = [shown.id for shown in page.sessions]
    while page.next:
        assert len(page.sessions) == options.get("limit", 50)
        page = await store.sessions(**options, after=page.next)
        ids += [shown.id for shown in page.sessions]
    return ids


async def search(store: Store, words: str) -> set[tuple[str, int]]:
    hits = [(hit.session, hit.seq) for hit in await store.search(words)]
    assert len({*hits}) == len(hits)
    return {*hits}


class SessionTests(StoreTests):
    async def test_fork_shares_the_entries_before_it(self, store: Store) -> None:
        """It has its own times, and is new until an entry is written to it."""
        drafts = await write(store, "s", *turn(), RunEnded("completed"))
        await write(store, "newer", *turn())
        before, count = await store.read("s"), len(drafts)
        old = (await store.session("newer")).meta.updated_at
        self.clock.now = old + 1000
        for at in (0, 1, 4, count, None):
            fork = await store.fork("s", at=at)
            shown, point = await store.session(fork), count if at is None else at
            created = shown.meta.created_at
            meta = msgspec.structs.replace(
                session_meta_of(fork, before[:point]), created_at=created, updated_at=created, status="new"
            )

            assert await store.read(fork) == before[:point]
            assert (shown.id, shown.parent, shown.forked_at, shown.head) == (fork, "s", point, point)
            assert shown.meta == meta
            assert created > old
            assert await store.find("last") == fork
            assert await list_ids(store, status="new") == [fork]
            await store.archive(fork)
        assert (await store.stats()).entries == count + 7
        await write(store, fork, question())
        shown = await store.session(fork)
        assert (shown.meta.created_at, shown.meta.status) == (created, "interrupted")

    async def test_entries_after_a_fork_are_separate(self, store: Store) -> None:
        """Also those of a fork of a fork, before or after the point where the first fork begins."""
        drafts = await write(store, "s", *turn())
        child = await store.fork("s", at=5)
        own = await write(store, child, question("Instead?"), answer("Snow."))
        later = await write(store, "s", question("And then?"))
        for at in range(8):
            grandchild = await store.fork(child, at=at)
            expected = [*drafts[:5], *own][:at]
            assert same(await store.read(grandchild), expected), at
            expected += await write(store, grandchild, question("Last."))
            assert same(await store.read(grandchild), expected), at

        for session, stored in ((child, [*drafts[:5], *own]), ("s", [*drafts, *later]), (grandchild, expected)):
            for after in range(10):
                for upto in (*range(10), None):
                    entries = await store.read(session, after=after, upto=upto)
                    assert same(entries, stored[after:upto], first=after + 1), (session, after, upto)

    async def test_forks_returns_the_children_of_a_session(self, store: Store) -> None:
        await write(store, "s", *turn())
        for id, parent in (("fork", "s"), ("a", "s"), ("b", "a")):
            assert await store.fork(parent, at=2, id=id) == id
        await store.archive("a")

        assert [await store.forks(id) for id in ("s", "a", "b")] == [["a", "fork"], ["b"], []]
        existing = [store.fork("s", **options) for options in ({"at": -1}, {"at": 8}, {"id": "s"}, {"id": "fork"})]
        await expect_error(Exception, *existing, match="s")
        await expect_error(ValueError, *(store.fork("s", id=id) for id in ("a b", "../a", "a\n", "-")), match="id")
        assert len((await store.sessions(archived=None)).sessions) == 4
        assert await store.fork("s") != await store.fork("s")

    async def test_unknown_session_is_not_found(self, store: Store) -> None:
        await write(store, "s")
        await store.lease("empty")
        for id in ("unknown", "S", "s ", "../s", "s\n", "empty"):
            await expect_error(SessionNotFound, store.read(id), store.session(id), store.verify(id), store.forks(id))
            await expect_error(
                SessionNotFound, store.fork(id), store.archive(id), store.delete(id), store.rename(id, "name")
            )

    # --- lists ---

    async def test_list_is_filtered(self, store: Store) -> None:
        assert await store.sessions() == SessionPage(())
        for id, agent in (("a", "scout"), ("b", "scout"), ("c", "baker"), ("d", "")):
            ended = [RunEnded("completed")] if id in "bc" else []
            await write(store, id, Configured("m", agent=agent), question(), *ended)
        await store.archive("c")
        for expected, options in (
            ("dba", {}),
            ("ba", {"agent": "scout"}),
            ("", {"agent": "unknown"}),
            ("b", {"status": "completed"}),
            ("da", {"status": "interrupted"}),
            ("b", {"agent": "scout", "status": "completed"}),
            ("c", {"archived": True}),
            ("dcba", {"archived": None}),
        ):
            assert await list_ids(store, **options) == list(expected), options
        await store.archive("c", archived=False)
        await store.rename("a", "weather")
        await store.fork("a", at=1, id="e")
        listed = {shown.id: shown for shown in (await store.sessions()).sessions}

        assert listed == {id: await store.session(id) for id in "abcde"}
        assert (listed["a"].name, listed["a"].meta.agent, listed["a"].meta.model) == ("weather", "scout", "m")

    async def test_list_is_filtered_by_name_directory_and_metadata(self, store: Store) -> None:
        roots = (Configured("m", roots=f'{{"read_file":"/data/{id}","shell":"/data/shared"}}') for id in "ab")
        for id, configured, text in zip("ab", roots, ("Weather in Oslo?", "Trains to Bergen?"), strict=True):
            metadata = MetadataChanged({"customer": id, "team": "north"})
            await write(store, id, configured, metadata, MessageAdded(UserMessage(text)))
        await write(store, "c", question())
        await store.rename("c", "OSLO airport")
        await write(store, "b", MetadataChanged({"customer": "b", "team": "süd"}))
        await store.fork("a", id="d")
        for expected, options in (
            ("bdca", {"name": ""}),
            ("dca", {"name": "oslo"}),
            ("b", {"name": "Trains"}),
            ("", {"name": "%"}),
            ("b", {"directory": "/data/b"}),
            ("bda", {"directory": "/data/shared"}),
            ("", {"directory": "/data"}),
            ("b", {"metadata": {"customer": "b"}}),
            ("da", {"metadata": {"customer": "a", "team": "north"}}),
            ("b", {"metadata": {"team": "süd"}}),
            ("", {"metadata": {"team": "north", "customer": "b"}}),
            ("a", {"metadata": {"team": "north"}, "status": "interrupted"}),
        ):
            for limit in (1, 50):
                found = await list_ids(store, limit=limit, **options)
                assert sorted(found) == sorted(expected), options
        assert (await store.session("b")).meta.metadata == {"customer": "b", "team": "süd"}

    async def test_every_status_is_shown_and_filtered(self, store: Store) -> None:
        for session, (_, _, payloads) in STATUSES.items():
            await write(store, session, *payloads)

        shown = {session.id: (session.status, session.reason) for session in (await store.sessions()).sessions}
        assert shown == {session: (status, reason) for session, (status, reason, _) in STATUSES.items()}
        for status in ("running", *{status for status, _, _ in STATUSES.values()}):
            expected = {session for session, (one, _, _) in STATUSES.items() if one == status}
            assert {*await list_ids(store, status=status)} == expected
        await expect_error(ValueError, store.sessions(status="open"), match="open")

    async def test_held_sessions_are_running(self, store: Store, other: Store) -> None:
        for number in range(6):
            await write(store, f"s{number}", question(), RunEnded("waiting", waiting_for="approval"))
        leases = [await store.lease(f"s{number}") for number in (1, 3, 4)]

        for limit in (1, 50):
            assert await list_ids(other, status="running", limit=limit) == ["s4", "s3", "s1"]
            assert await list_ids(other, status="waiting", limit=limit) == ["s5", "s2", "s0"]
        shown = await other.session("s3")
        assert (shown.status, shown.reason, bool(shown.holder)) == ("running", "", True)
        await add(store, leases[1], question(), release=True)
        shown = await other.session("s3")
        assert (shown.status, shown.reason, shown.holder) == ("interrupted", "", "")

    async def test_pages_make_the_whole_list(self, store: Store) -> None:
        """Newest first. A session that is written meanwhile does not move them."""
        for number in range(7):
            await write(store, f"s{number}")
        for id in ("s1", "s4", "s1"):
            await write(store, id, answer())
            assert await store.find("last") == id
        created = [f"s{number}" for number in range(6, -1, -1)]
        for limit in (1, 3, 7, 50):
            assert await list_ids(store, limit=limit, order="created") == created
            assert await list_ids(store, limit=limit) == ["s1", "s4", "s6", "s5", "s3", "s2", "s0"]
        page = await store.sessions(limit=2)
        await write(store, "new")
        rest = await store.sessions(limit=2, after=page.next)
        assert [shown.id for shown in (*page.sessions, *rest.sessions)] == ["s1", "s4", "s6", "s5"]

    # --- finding ---

    async def test_session_is_found_by_id_name_and_prefix(self, store: Store) -> None:
        """Case counts, and no character is a pattern. An id comes before a name."""
        await expect_error(SessionNotFound, *map(store.find, ("last", "~0", "a", "")))
        for id in ("abc1", "abd2", "ab", "a_1", "AB2", "xyz3"):
            await write(store, id)
        await store.rename("xyz3", "my walk in the rain")
        await store.rename("a_1", "abd2")
        for text, id in (
            *(("abc1", "abc1"), ("abc", "abc1"), ("ab", "ab"), ("a_", "a_1"), ("A", "AB2"), ("x", "xyz3")),
            *(("my walk in the rain", "xyz3"), ("abd2", "abd2")),
        ):
            assert await store.find(text) == id
        unknown = ("abcd", "bc1", "", "my", "abc1 ", "abc1\n", "\0", "\ud800", "%", "~", "_b", "a%", "*", "a?")
        await expect_error(SessionNotFound, *map(store.find, unknown))
        await expect_error(SessionNotFound, store.find("a"), match=r"several.*abc1.*abd2")

    async def test_session_is_found_by_its_position(self, store: Store) -> None:
        for id, agent in (("a", "scout"), ("b", "baker"), ("c", "scout")):
            await write(store, id, Configured("m", agent=agent), question())

        assert [await store.find(text) for text in ("last", "~0", "~1", "~2")] == ["c", "c", "b", "a"]
        assert await store.find("last", agent="baker") == "b"
        assert await store.find("~1", agent="scout") == "a"
        await store.archive("c")
        assert await store.find("last") == "b"
        for text, of in (("~3", None), ("~1", "baker"), ("last", "unknown"), ("~-1", None), ("~99999999", None)):
            await expect_error(SessionNotFound, store.find(text, agent=of))

    # --- searching ---

    async def test_words_are_found_in_every_kind_of_text(self, store: Store) -> None:
        first, steered = question("Should I take an umbrella to Oslo?"), SteeringAdded(UserMessage("Mind the umbrella"))
        await write(store, "s", first, reply("a"), result("a", 0, "drizzle"), steered, answer("Grüße aus Bergen"))
        fork = await store.fork("s")
        await write(store, fork, answer("an umbrella in a fork"))
        found = {
            "umbrella": {("s", 1), ("s", 4), (fork, 6)},
            "UMBRELLA oslo": {("s", 1)},
            "drizzle": {("s", 3)},
            "GRÜSSE": {("s", 5)},
            "umbrella drizzle": set(),
            "snow": set(),
        }

        assert {words: await search(store, words) for words in found} == found
        assert await store.reindex() >= 5
        assert {words: await search(store, words) for words in found} == found
        assert len(await store.search("umbrella", limit=2)) == 2
        await write(store, "other", Configured("m", agent="scout"), question("An umbrella?"))
        assert {hit.session for hit in await store.search("umbrella", agent="scout")} == {"other"}
        assert {hit.session for hit in await store.search("umbrella", agent="")} == {"s", fork}
        assert await store.search("umbrella", agent="sco") == []
        await write(store, "s", question("so " * 3000 + "the needle is here " + "and so on " * 3000))
        (hit,) = await store.search("needle")
        assert "needle" in hit.snippet
        assert len(hit.snippet) < 2000

    async def test_words_are_not_syntax(self, store: Store) -> None:
        odd = MessageAdded(user("rain\0bow \ud800 needle ", "x" * 300_000))
        text = question('cats AND dogs, NOT near: rain* (heavy) it\'s "quoted" a-b c:d 100%')
        await write(store, "s", text, odd, answer("\0"), answer("\udfff"), answer(""))
        for words in SYNTAX:
            await store.search(words)
        for words in ("cats", "heavy", "quoted", "dogs cats"):
            assert await search(store, words) == {("s", 1)}, words
        assert await search(store, "needle") == {("s", 2)}


LARGE = question("rain " * BLOB)
NOT_NAMES = ("a\nb", "a\0", "\ud800", "\x1b[2J", "x" * 201, " a", "\u2028", "last", "~0", "~1", "~123456789012")
"""Text that is not one printable line, and keywords of `find`."""


class MaintenanceTests(StoreTests):
    async def test_name_belongs_to_one_session(self, store: Store) -> None:
        for id in ("a", "b"):
            await write(store, id)
        await expect_error(ValueError, *(store.rename("a", name) for name in NOT_NAMES), match="is not a name")
        for name in ("Ein Spaziergang im Regen", "雨の散歩 ☔", 'it\'s; -- 100% \\ "so"', "x" * 200, "Walk", "walk"):
            await store.rename("a", name)
            assert (await store.session("a")).name == name
            assert await store.find(name) == "a"

        await expect_error(ValueError, store.rename("b", "walk"), match="walk")
        assert (await store.session("b")).name == ""
        await store.rename("a", "")
        await store.rename("b", "walk")
        assert await store.find("walk") == "b"
        await store.delete("b")
        await store.rename("a", "walk")
        assert await store.find("walk") == "a"

    async def test_deleted_session_is_gone(self, store: Store) -> None:
        await write(store, "a", *turn())
        await store.post("a", Cancel())
        lease = await start(store, "b")
        assert len(await store.search("rain")) == 1
        await expect_error(SessionInUse, store.delete("b"))
        await add(store, lease, answer("Snow."))

        assert await store.delete("a") == ("a",)
        await expect_error(SessionNotFound, store.read("a"))
        assert [shown.id for shown in (await store.sessions(archived=None)).sessions] == ["b"]
        assert await store.search("rain") == []
        assert await store.posted() == {}
        drafts = await write(store, "a", question("A new one"))
        assert same(await store.read("a"), drafts)
        assert await store.inbox("a") == []

    async def test_session_with_forks_is_deleted_with_them(self, store: Store) -> None:
        drafts = await write(store, "a", *turn())
        child = await store.fork("a", at=5)
        grandchild = await store.fork(child, at=2)
        assert await store.delete(single := await store.fork("a")) == (single,)
        await expect_error(StoreError, store.delete("a"), store.delete(child))
        lease = await store.lease(grandchild)
        await expect_error(SessionInUse, store.delete("a", children=True))
        for id, count in (("a", 7), (child, 5), (grandchild, 2)):
            assert same(await store.read(id), drafts[:count])
        await store.release(lease)

        assert {*await store.delete("a", children=True)} == {"a", child, grandchild}
        assert (await store.sessions(archived=None)).sessions == ()
        assert (await store.stats()).entries == 0

    async def test_large_bodies_are_stored_once(self, store: Store) -> None:
        """`gc` removes those that no entry has, and no session that a process is about to write."""
        empty = await store.stats()
        lease = await store.lease("empty")
        await write(store, "a", answer(), LARGE, LARGE)
        await write(store, "b", LARGE, question("snow " * BLOB))
        await write(store, await store.fork("a"), question())
        full = await store.stats()

        assert (empty.sessions, empty.entries, empty.blobs, empty.blob_bytes) == (0, 0, 0, 0)
        assert (full.sessions, full.entries, full.blobs) == (3, 6, 2)
        assert min(full.bytes, full.schema, len(full.backend)) > 0
        await store.delete("b")
        await store.gc()
        stats = await store.stats()
        assert stats.blobs == 1
        assert BLOB < stats.blob_bytes < full.blob_bytes
        assert await store.gc() == 0
        assert [entry.payload for entry in await store.read("a")] == [answer(), LARGE, LARGE]
        assert (await add(store, lease, question())).head == 1

    async def test_backup_overwrites_nothing(self, store: Store) -> None:
        await write(store, "s", *turn())
        with NamedTemporaryFile() as existing:
            existing.write(b"precious")
            existing.flush()
            await expect_error(StoreError, store.backup(existing.name))
            existing.seek(0)
            assert existing.read() == b"precious"

    # --- damage ---

    async def test_verify_reports_results_without_calls(self, store: Store) -> None:
        """Calls without results are not a problem."""
        self.is_sound = False
        await write(store, "a", question(), result("a", 0))
        await write(store, "b", question(), reply("a"), result("b", 1))
        await write(store, "c", *turn(), RunEnded("completed"))
        await write(store, "d", question(), reply("x", "x"), result("x", 1))
        await write(store, "e", LARGE, reply("x"))
        await write(store, await store.fork("c", at=4), result("a", 0))
        await store.lease("empty")

        assert [(problem.session, problem.seq, bool(problem.what)) for problem in await store.verify()] == [
            ("a", 2, True),
            ("b", 3, True),
        ]
        assert [problem.seq for problem in await store.verify("a")] == [2]
        assert await store.verify("d") == []

    async def test_damaged_entries_are_found(self, store: Store) -> None:
        """By `verify` and by `read`, also in forks that share them."""
        self.is_sound = False
        drafts = await write(store, "a", *turn())
        fork = await store.fork("a", at=5)
        await write(store, "b", LARGE, answer())
        for session, seq in (("a", 3), ("b", 1)):
            await self.damage(session, seq)

        damaged = {("a", 3), (fork, 3), ("b", 1)}
        assert {(problem.session, problem.seq) for problem in await store.verify()} == damaged
        for session, seq in damaged:
            assert {problem.seq for problem in await store.verify(session)} == {seq}
            await expect_error(StoreCorrupt, store.read(session), match=f"entry {seq} ")
        assert same(await store.read("a", upto=2), drafts[:2])
        assert same(await store.read("a", after=3), drafts[3:], first=4)


# --- leases and budgets -----------------------------------------------------------------------------------------------
BAD_IDS = ("", "-a", "_a", "a b", "a/b", "../a", "a\n", "a\0", "ä", "a" * 65, ".", "~1", "a.b", "\ud800", "last")
GOOD_IDS = ("a", "Z" * 64, "0", "con", "CON", "a-_", "LAST", "9" * 64)


async def check_lost(store: Store, *leases: Lease) -> None:
    """Check that leases can neither write nor be renewed, and that releasing them is not an error."""
    for lease in leases:
        await expect_error(LeaseLost, add(store, lease, answer("too late")), store.renew(lease))
        await store.release(lease)


class LeaseTests(StoreTests):
    async def test_session_exists_from_its_first_entry(self, store: Store) -> None:
        lease = await store.append(await store.lease("s"), [])

        assert lease.head == 0
        await expect_error(SessionNotFound, store.session("s"), store.read("s"), store.find("s"), store.verify("s"))
        assert (await store.sessions()).sessions == ()
        await add(store, lease, question())
        assert (await store.session("s")).head == 1

    async def test_held_session_is_in_use_for_others(self, store: Store, other: Store) -> None:
        await write(store, "s", *turn())
        lease = await store.lease("s")
        error = await expect_error(SessionInUse, other.lease("s"), store.lease("s"))

        assert lease.head == 7
        assert (error.session, error.pid > 0, error.host != "") == ("s", True, True)
        await add(store, lease, question())
        assert (await other.session("s")).holder == f"{error.pid}@{error.host}"

    async def test_released_session_is_free(self, store: Store, other: Store) -> None:
        """Released by itself, or in the transaction of the last entries."""
        for session, with_append in (("a", False), ("b", True)):
            first = await store.lease(session)
            last = await store.append(first, drafts := [draft(question()), draft(answer())], release=with_append)
            if not with_append:
                await store.release(last)

            assert (await other.session(session)).holder == ""
            await check_lost(store, first, last)
            second = await other.lease(session)
            assert second.fence > first.fence
            assert second.owner != first.owner
            await check_lost(store, first, last)
            assert same(await store.read(session), drafts)

    async def test_closing_releases_leases(self, store: Store, other: Store) -> None:
        lease = await store.lease("s")
        drafts = await write(store, "t", *turn())
        await store.close()
        await store.close()

        await expect_error(StoreError, store.read("s"), add(store, lease, question()))
        assert (await other.lease("s")).fence > lease.fence
        assert same(await other.read("t"), drafts)

    async def test_takeover_replaces_the_holder(self, store: Store, other: Store) -> None:
        before = await store.lease("s")
        lost = await store.append(before, first := [draft(question())])
        taken = await other.lease("s", takeover=True)

        assert taken.fence > lost.fence
        assert taken.head == 1
        await expect_error(
            LeaseLost, store.append(before, first)
        )  # they are stored, but the previous holder has to stop
        await check_lost(store, lost)
        await expect_error(SessionInUse, store.lease("s"))
        await other.append(taken, [second := draft(answer())])
        entries = await other.read("s")
        assert same(entries, [*first, second])
        assert [entry.fence for entry in entries] == [lost.fence, taken.fence]

    async def test_renewed_lease_is_the_same(self, store: Store) -> None:
        lease = await store.lease("s")
        again = await store.renew(lease)

        assert (again.fence, again.owner, again.head) == (lease.fence, lease.owner, lease.head)
        assert again.until >= lease.until
        assert (await add(store, again, question())).head == 1

    async def test_only_writing_needs_a_lease(self, store: Store, other: Store) -> None:
        lease = await start(store, "s")

        assert len(await other.read("s")) == 1
        await other.rename("s", "mine")
        await other.archive("s")
        await other.post("s", Cancel())
        await write(other, await other.fork("s"), answer())
        assert len(await store.inbox("s")) == 1
        assert (await add(store, lease, answer())).head == 2

    async def test_invalid_ids_are_refused(self, store: Store) -> None:
        await expect_error(ValueError, *(store.lease(id) for id in BAD_IDS), match="id")
        for owner, generation, ttl in (("a\n", 0, None), ("x" * 201, 0, None), ("a", -1, None), ("a", 0, 0.0)):
            lease = store.lease("s", owner=owner, generation=generation, ttl=ttl)
            await expect_error(ValueError, lease, match=r"owner|generation|ttl")
        for id in GOOD_IDS:
            await write(store, id)

        assert {shown.id for shown in (await store.sessions()).sessions} == {*GOOD_IDS}

    # --- time ---

    async def test_lease_of_another_machine_lapses(self, store: Store, elsewhere: Store) -> None:
        lost = await store.lease("s")
        self.clock.move(self.ttl_ms - 1)
        await expect_error(SessionInUse, elsewhere.lease("s"))
        self.clock.move(2)
        taken = await elsewhere.lease("s")

        assert taken.fence > lost.fence
        await check_lost(store, lost)
        await add(elsewhere, taken, question(), release=True)
        last = await store.lease("s")
        assert last.fence > taken.fence
        self.clock.move(-1000 * self.ttl_ms)  # the clock is set back: such a lease does not last for years
        assert (await elsewhere.lease("s")).fence > last.fence

    async def test_using_a_lease_renews_it(self, store: Store, elsewhere: Store) -> None:
        lease = await store.lease("s")
        for _ in range(3):
            self.clock.move(self.ttl_ms - 1)
            lease = await add(store, lease, question())
        self.clock.move(self.ttl_ms - 1)
        await store.renew(lease)
        self.clock.move(self.ttl_ms - 1)

        await expect_error(SessionInUse, elsewhere.lease("s"))

    async def test_clock_step_ends_no_lease_on_the_same_machine(self, store: Store, other: Store) -> None:
        self.require_clock()
        lease = await start(store, "s")
        await store.lease("empty")
        for step in (100, -2000, 5000, 10**6, -(10**6)):
            self.clock.move(step * self.ttl_ms)
            await expect_error(SessionInUse, other.lease("s"), other.delete("s"))
            await other.gc()
            await expect_error(SessionInUse, other.lease("empty"))
            lease = await add(store, lease, question())

    async def test_lease_has_its_own_time(self, store: Store, elsewhere: Store) -> None:
        short = await store.lease("short", ttl=self.ttl_ms / 4000)
        long = await store.lease("long", ttl=self.ttl_ms / 50)
        assert long.until - short.until == self.ttl_ms * 20 - self.ttl_ms // 4
        self.clock.move(self.ttl_ms // 2)
        assert (await elsewhere.lease("short")).fence > short.fence
        self.clock.move(self.ttl_ms * 15)
        await expect_error(SessionInUse, elsewhere.lease("long"))
        long = await add(store, long, question())
        self.clock.move(self.ttl_ms * 15)
        await expect_error(SessionInUse, elsewhere.lease("long"))
        self.clock.move(self.ttl_ms * 6)
        assert (await elsewhere.lease("long")).fence > long.fence

    # --- owners and generations ---

    async def test_higher_generation_replaces_the_holder(self, store: Store, other: Store) -> None:
        first = await store.lease("s", owner="job", generation=1)
        second = await other.lease("s", owner="job", generation=2)
        third = await other.lease("s", owner="job", generation=3)

        assert first.fence < second.fence < third.fence
        await check_lost(store, first)
        await check_lost(other, second)
        for handle in (store, other):
            for takeover in (False, True):
                await expect_error(LeaseLost, handle.lease("s", owner="job", generation=2, takeover=takeover))
        assert (await add(other, third, question())).head == 1

    async def test_same_generation_gets_the_same_lease(self, store: Store, other: Store) -> None:
        first = await start(store, "s", owner="job", generation=2)
        again = await store.lease("s", owner="job", generation=2)
        process = await other.lease("s", owner="job", generation=2)

        for lease in (again, process):
            assert (lease.owner, lease.fence, lease.head) == ("job", first.fence, 1)
        await add(store, again, answer())
        assert (await add(other, await other.renew(process), question())).head == 3

    async def test_generation_counts_only_for_its_owner_and_session(self, store: Store) -> None:
        first, second = [await start(store, id, owner="job", generation=1) for id in ("a", "b")]
        await expect_error(SessionInUse, store.lease("a", owner="other", generation=9))
        await store.release(first)

        assert (await store.session("a")).holder == ""
        assert (await add(store, await store.renew(second), answer())).head == 2
        taken = await store.lease("b", owner="other", takeover=True)
        assert taken.fence > second.fence
        await store.release(taken)
        assert (await store.lease("b", owner="job", generation=0)).fence > taken.fence

    async def test_lapsed_holder_is_replaced_by_any_generation(self, store: Store, elsewhere: Store) -> None:
        for generation in (1, 2, 3):
            lost = await store.lease(f"s{generation}", owner="job", generation=2)
            self.clock.move(self.ttl_ms + 1)

            assert (await elsewhere.lease(f"s{generation}", owner="job", generation=generation)).fence > lost.fence
            await check_lost(store, lost)


def spend(spent: int = 0, reserved: int = 0, *, limit: int | None = 100, **options: Any) -> BudgetChange:
    """Return a change of the budget of session `root`: in tokens, and in USD (100 tokens are 1 USD)."""
    return BudgetChange(
        root="root",
        spent_tokens=spent,
        spent_usd=f"{spent / 100:.2f}",
        reserved_tokens=reserved,
        reserved_usd=f"{reserved / 100:.2f}",
        limit_tokens=limit,
        limit_usd=None if limit is None else f"{limit / 100:.2f}",
        **options,
    )


async def change(store: Store, lease: Lease, budget: BudgetChange, **options: Any) -> Lease:
    return await add(store, lease, answer(), budget=budget, **options)


async def start_family(store: Store) -> tuple[Lease, Lease]:
    return await start(store, "root"), await start(store, "child")


class BudgetTests(StoreTests):
    async def test_members_have_their_own_totals(self, store: Store, other: Store) -> None:
        root, child = await start_family(store)
        root = await change(store, root, spend(10, 20))
        await change(store, child, spend(5, 30))
        drafts = [draft(answer())]
        for _ in range(2):  # an append that is sent again counts once
            again = await store.append(root, drafts, budget=spend(15))

        second, first = await other.budget("root")
        assert first == BudgetMember(
            session="root", fence=root.fence, spent_tokens=15, spent_usd="0.15", reserved_usd="0.00", live=True
        )
        assert (second.session, second.spent_tokens, second.reserved_usd, second.live) == ("child", 5, "0.30", True)
        await change(store, again, spend(reset=True))
        assert [member.session for member in await store.budget("root")] == ["root"]

    async def test_limits_count_the_whole_family(self, store: Store) -> None:
        root, child = await start_family(store)
        await change(store, root, spend(10, 40))
        child = await change(store, child, spend(20, 30))
        for budget, limit_name, total in (
            (spend(20, 31), "tokens", "101"),
            (spend(20, 31, single_may_exceed=True), "tokens", "101"),
            (BudgetChange(root="root", spent_usd="0.501", limit_usd="1"), "usd", "1.001"),
            (BudgetChange(root="root", spent_tokens=51, limit_tokens=100), "tokens", "101"),
        ):
            error = await expect_error(BudgetExceeded, change(store, child, budget))
            assert (error.limit_name, error.total) == (limit_name, total)
        assert (await store.session("child")).head == 2
        child = await change(store, child, spend(500, limit=None))
        await expect_error(BudgetExceeded, change(store, child, spend(500, single_may_exceed=True)))

    async def test_refused_append_writes_nothing(self, store: Store) -> None:
        root = await start(store, "root")
        before = await store.read("root")
        await store.post("root", Cancel())
        [posted] = await store.inbox("root")
        budget = spend(reserved=101)
        await expect_error(BudgetExceeded, change(store, root, budget, release=True, taking=[posted.number]))

        assert await store.read("root") == before
        assert await store.inbox("root") == [posted]
        assert await store.budget("root") == []
        root = await change(store, root, spend(reserved=100))
        assert (await change(store, root, spend(reserved=101, single_may_exceed=True))).head == 3

    async def test_reservation_ends_with_its_lease(self, store: Store) -> None:
        """Whether the lease is released or taken over: the new holder has not reserved anything yet."""
        for end in ("release", "takeover"):
            root, child = await start_family(store)
            child = await change(store, child, spend(10, 80))
            await expect_error(BudgetExceeded, change(store, root, spend(reserved=90)))
            if end == "release":
                await store.release(child)
            else:
                child = await store.lease("child", takeover=True)

            root = await change(store, root, spend(reserved=90))
            await expect_error(BudgetExceeded, change(store, root, spend(reserved=91)))
            assert [member.live for member in await store.budget("root")] == [False, True]
            for lease in (root, child):
                await store.release(lease)
                await store.delete(lease.session)

    async def test_reservation_lapses_with_the_lease(self, store: Store, elsewhere: Store) -> None:
        child, root = await start(elsewhere, "child"), await start(store, "root")
        await change(elsewhere, child, spend(10, 80))
        await expect_error(BudgetExceeded, change(store, root, spend(reserved=90)))
        self.clock.move(self.ttl_ms + 1)

        await change(store, root, spend(reserved=90))

    async def test_deleted_member_has_spent_its_part(self, store: Store) -> None:
        root, child = await start_family(store)
        await change(store, child, spend(60), release=True)
        await store.delete("child")
        await expect_error(BudgetExceeded, change(store, root, spend(41)))

        await change(store, root, spend(100, forget=("child",)))
        assert [member.session for member in await store.budget("root")] == ["root"]
        assert await store.budget(await store.fork("root")) == []

    async def test_unknown_root_and_invalid_amounts_are_refused(self, store: Store) -> None:
        drafts = await write(store, "child")
        await expect_error(SessionNotFound, change(store, await store.lease("child"), spend(1)), store.budget("root"))
        for usd in ("much", "NaN", "-1"):
            with pytest.raises(ValueError, match="spent_usd"):
                BudgetChange(root="root", spent_usd=usd)

        assert same(await store.read("child"), drafts)

    async def test_members_at_once_stay_below_the_limit(self, store: Store, other: Store) -> None:
        await start(store, "root")
        leases = [(handle, await start(handle, f"c{n}")) for n, handle in enumerate((store, other) * 4)]
        appends = [change(handle, lease, spend(reserved=30)) for handle, lease in leases]
        done, errors = outcome(await asyncio.gather(*appends, return_exceptions=True))

        assert done == 3
        assert {type(error) for error in errors} == {BudgetExceeded}
        assert sum(member.reserved_tokens for member in await store.budget("root")) == 90
