"""Forks, lists, finding and searching; names, deleting, collecting unused data, and finding damage."""

from __future__ import annotations

from tempfile import NamedTemporaryFile
from typing import Any

import msgspec

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
from tenuto.errors import SessionInUse, SessionNotFound, StoreCorrupt, StoreError
from tenuto.store.protocol import BLOB, SessionPage, Store
from tenuto.testing.store_suite.helpers import (
    StoreTests,
    add,
    answer,
    expect_error,
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
        assert await store.verify() == []

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
        assert await store.verify() == []

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
        assert await store.verify() == []

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
        assert await store.verify() == []

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
        assert await store.verify() == []

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
