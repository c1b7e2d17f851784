"""Reading: entries, lists, finding a session by what somebody typed, finding entries by what was said."""

from __future__ import annotations

from typing import Literal

import pytest

from tenuto.core.journal import (
    CallStarted,
    Configured,
    EntryPayload,
    MessageAdded,
    RequestStarted,
    RunEnded,
    SteeringAdded,
)
from tenuto.core.messages import UserMessage, user
from tenuto.errors import SessionNotFound, StoreError
from tenuto.store.protocol import SessionPage, Store
from tenuto.testing.chapters.stage import Chapter, answer, draft, question, reply, result, same, turn, write

__all__ = ["Finding", "Listing", "Reading", "Searching"]

_ORDERS: tuple[Literal["updated", "created"], ...] = ("updated", "created")


class Reading(Chapter):
    """Entries come oldest first, any stretch of them."""

    async def test_any_stretch_can_be_read(self, store: Store) -> None:
        drafts = await write(store, "s", *turn())
        fork = await store.fork("s", at=4)
        drafts_there = drafts[:4] + await write(store, fork, question(), answer())
        for session, all_of_it in (("s", drafts), (fork, drafts_there)):
            for after in range(9):
                assert same(await store.read(session, after=after), all_of_it[after:], first=after + 1)
                for upto in range(9):
                    some = await store.read(session, after=after, upto=upto)
                    assert same(some, all_of_it[after:upto], first=after + 1), (session, after, upto)

    async def test_what_is_not_there_is_not_found(self, store: Store) -> None:
        await write(store, "s")
        for id in ("nobody", "S", "s ", "../s", "s\n"):
            for reading in (store.read, store.session, store.verify):
                with pytest.raises((SessionNotFound, ValueError)):
                    await reading(id)
        for writing in (store.fork, store.archive, store.delete):
            with pytest.raises(SessionNotFound):
                await writing("nobody")
        with pytest.raises(SessionNotFound):
            await store.rename("nobody", "somebody")

    async def test_a_closed_store_says_so(self, store: Store) -> None:
        await write(store, "s")
        lease = await store.lease("t")
        await store.close()
        await store.close()

        with pytest.raises(StoreError):
            await store.read("s")
        with pytest.raises(StoreError):
            await store.append(lease, [draft(question())])


class Listing(Chapter):
    """Sessions, newest first, page by page."""

    async def test_an_empty_store_lists_nothing(self, store: Store) -> None:
        assert await store.sessions() == SessionPage(())

    async def test_newest_first(self, store: Store) -> None:
        for id in ("b", "a", "c"):
            await write(store, id)
        await write(store, "b", answer())

        assert await self._ids(store) == ["b", "c", "a"]
        assert await self._ids(store, order="created") == ["c", "a", "b"]

    async def test_a_list_shows_what_asking_for_one_shows(self, store: Store) -> None:
        await write(store, "s", Configured("some/model", agent="scout"), *turn(), RunEnded("completed"))
        await store.rename("s", "weather")
        fork = await store.fork("s", at=3)
        listed = {shown.id: shown for shown in (await store.sessions()).sessions}

        assert listed == {"s": await store.session("s"), fork: await store.session(fork)}
        shown = listed["s"]
        assert (shown.name, shown.meta.agent, shown.meta.model, shown.meta.status) == (
            "weather", "scout", "some/model", "completed",
        )  # fmt: skip

    async def test_by_agent_and_by_status(self, store: Store) -> None:
        await write(store, "a", Configured("m", agent="scout"), question())
        await write(store, "b", Configured("m", agent="scout"), question(), RunEnded("completed"))
        await write(store, "c", Configured("m", agent="baker"), question(), RunEnded("completed"))
        await write(store, "d", question())

        assert await self._ids(store, agent="scout") == ["b", "a"]
        assert await self._ids(store, status="completed") == ["c", "b"]
        assert await self._ids(store, agent="scout", status="completed") == ["b"]
        assert await self._ids(store, agent="nobody") == []
        assert await self._ids(store, status="interrupted") == ["d", "a"]
        await write(store, "b", question("Go on."))
        assert await self._ids(store, status="completed") == ["c"]

    async def test_every_status_is_shown_and_filtered(self, store: Store) -> None:
        run: list[EntryPayload] = [Configured("m"), question()]
        ends: dict[str, tuple[str, str, list[EntryPayload]]] = {
            "configured": ("new", "", [Configured("m")]),
            "asked": ("interrupted", "", [*run, RequestStarted("m")]),
            "cancelling": ("interrupted", "", [*run, RunEnded("cancelling")]),
            "limited": ("waiting", "limit", [*run, RunEnded("limit", "tokens")]),
            "unapproved": ("waiting", "approval", [*run, RunEnded("waiting", "approval")]),
            "approved": ("interrupted", "", [*run, RunEnded("waiting", "approval"), CallStarted("c", 0)]),
            "full": ("waiting", "context", [*run, RunEnded("waiting", waiting_for="context")]),
            "input": ("waiting", "input", [*run, RunEnded("waiting", "a name", waiting_for="input")]),
            "done": ("completed", "", [*run, answer(), RunEnded("completed")]),
            "cancelled": ("cancelled", "", [*run, RunEnded("cancelling"), RunEnded("cancelled")]),
            "failed": ("failed", "", [*run, RunEnded("failed", "BadRequest")]),
            "odd": ("failed", "", [*run, RunEnded("a reason of a later version")]),
        }
        for session, (_, _, payloads) in ends.items():
            await write(store, session, *payloads)

        shown = {session.id: (session.status, session.reason) for session in (await store.sessions()).sessions}
        assert shown == {session: (status, reason) for session, (status, reason, _) in ends.items()}
        for status in {status for status, _, _ in ends.values()}:
            expected = {session for session, (one, _, _) in ends.items() if one == status}
            assert {*await self._ids(store, status=status)} == expected
        assert await self._ids(store, status="running") == []
        with pytest.raises(ValueError, match="open"):
            await store.sessions(status="open")

    async def test_held_sessions_are_running(self, store: Store) -> None:
        other = await self.another()
        for number in range(6):
            await write(store, f"s{number}", question(), RunEnded("waiting", waiting_for="approval"))
        leases = [await store.lease(f"s{number}") for number in (1, 3, 4)]

        assert await self._ids(other, status="running") == ["s4", "s3", "s1"]
        assert await self._ids(other, status="waiting") == ["s5", "s2", "s0"]
        for status, ids in (("running", ["s4", "s3", "s1"]), ("waiting", ["s5", "s2", "s0"])):
            pages = [await other.sessions(status=status, limit=1)]
            while pages[-1].next:
                pages.append(await other.sessions(status=status, limit=1, after=pages[-1].next))
            assert [session.id for page in pages for session in page.sessions] == ids
        shown = await other.session("s3")
        assert (shown.status, shown.reason, bool(shown.holder)) == ("running", "", True)
        await store.append(leases[1], [draft(question())], release=True)
        shown = await other.session("s3")
        assert (shown.status, shown.reason, shown.holder) == ("interrupted", "", "")

    async def test_archived_ones_are_shown_when_asked_for(self, store: Store) -> None:
        for id in ("a", "b", "c"):
            await write(store, id)
        await store.archive("b")

        assert await self._ids(store) == ["c", "a"]
        assert await self._ids(store, archived=True) == ["b"]
        assert await self._ids(store, archived=None) == ["c", "b", "a"]
        await store.archive("b", archived=False)
        assert await self._ids(store) == ["c", "b", "a"]

    async def test_pages_make_the_whole_list(self, store: Store) -> None:
        ids = [f"s{number}" for number in range(7)]
        for id in ids:
            await write(store, id)
        for limit in (1, 3, 7, 50):
            for order in _ORDERS:
                found: list[str] = []
                page = await store.sessions(limit=limit, order=order)
                found += [shown.id for shown in page.sessions]
                while page.next:
                    assert len(page.sessions) == limit
                    page = await store.sessions(limit=limit, order=order, after=page.next)
                    found += [shown.id for shown in page.sessions]
                assert found == ids[::-1], (limit, order)

    async def test_pages_do_not_move_when_something_new_comes(self, store: Store) -> None:
        for id in ("a", "b", "c", "d"):
            await write(store, id)
        page = await store.sessions(limit=2)
        await write(store, "e")
        rest = await store.sessions(limit=2, after=page.next)

        assert [shown.id for shown in (*page.sessions, *rest.sessions)] == ["d", "c", "b", "a"]

    async def _ids(
        self,
        store: Store,
        *,
        agent: str | None = None,
        status: str | None = None,
        archived: bool | None = False,
        order: Literal["updated", "created"] = "updated",
    ) -> list[str]:
        page = await store.sessions(agent=agent, status=status, archived=archived, order=order)
        return [shown.id for shown in page.sessions]


class Finding(Chapter):
    """What somebody types to mean a session."""

    async def test_by_id_name_and_beginning(self, store: Store) -> None:
        for id in ("abc1", "abd2", "xyz3"):
            await write(store, id)
        await store.rename("xyz3", "my walk in the rain")

        assert await store.find("abc1") == "abc1"
        assert await store.find("abc") == "abc1"
        assert await store.find("x") == "xyz3"
        assert await store.find("my walk in the rain") == "xyz3"
        for text in ("abcd", "bc1", "", "my", "abc1 ", "abc1\n", "\0", "\ud800", "%", "~"):
            with pytest.raises(SessionNotFound):
                await store.find(text)

    async def test_a_beginning_of_several_says_so(self, store: Store) -> None:
        for id in ("abc1", "abd2", "ab"):
            await write(store, id)

        assert await store.find("ab") == "ab"
        with pytest.raises(SessionNotFound, match="several") as told:
            await store.find("a")
        assert "abc1" in str(told.value)
        assert "abd2" in str(told.value)

    async def test_a_beginning_is_no_pattern(self, store: Store) -> None:
        """Capitals count, and an underscore is an underscore."""
        for id in ("a_1", "ab1", "AB2"):
            await write(store, id)

        assert await store.find("a_") == "a_1"
        assert await store.find("A") == "AB2"
        assert await store.find("ab") == "ab1"
        for text in ("_b", "a%", "*", "a?"):
            with pytest.raises(SessionNotFound):
                await store.find(text)

    async def test_the_last_and_those_before(self, store: Store) -> None:
        await write(store, "a", Configured("m", agent="scout"), question())
        await write(store, "b", Configured("m", agent="baker"), question())
        await write(store, "c", Configured("m", agent="scout"), question())

        assert await store.find("last") == "c"
        assert await store.find("~0") == "c"
        assert await store.find("~1") == "b"
        assert await store.find("~2") == "a"
        assert await store.find("last", agent="baker") == "b"
        assert await store.find("~1", agent="scout") == "a"
        await store.archive("c")
        assert await store.find("last") == "b"
        for text, agent in (("~3", None), ("~1", "baker"), ("last", "nobody"), ("~-1", None), ("~99999999", None)):
            with pytest.raises(SessionNotFound):
                await store.find(text, agent=agent)

    async def test_nothing_is_found_where_nothing_is(self, store: Store) -> None:
        for text in ("last", "~0", "a", ""):
            with pytest.raises(SessionNotFound):
                await store.find(text)


class Searching(Chapter):
    """Entries by the words in them."""

    async def test_words_are_found_wherever_they_were_said(self, store: Store) -> None:
        first, steered = question("Shall I take an umbrella to Oslo?"), SteeringAdded(UserMessage("Mind the umbrella"))
        await write(store, "s", first, reply("a"), result("a", 0, "drizzle"), steered, answer("Grüße aus Bergen"))
        await write(store, "t", question("Nothing of the sort"))

        assert await self._places(store, "umbrella") == {("s", 1), ("s", 4)}
        assert await self._places(store, "UMBRELLA oslo") == {("s", 1)}
        assert await self._places(store, "drizzle") == {("s", 3)}
        assert await self._places(store, "grüße") == {("s", 5)}
        assert await self._places(store, "umbrella nothing") == set()
        assert await self._places(store, "snow") == set()

    async def test_a_hit_shows_the_words(self, store: Store) -> None:
        await write(store, "s", question("so " * 3000 + "the needle is here " + "and so on " * 3000))
        (hit,) = await store.search("needle")

        assert "needle" in hit.snippet
        assert len(hit.snippet) < 2000

    async def test_no_words_are_syntax(self, store: Store) -> None:
        await write(store, "s", question('cats AND dogs, NOT near: rain* (heavy) it\'s "quoted" a-b c:d 100%'))
        odd = (
            '"',
            "'",
            "AND",
            "OR",
            "NOT",
            "NEAR(a b)",
            "*",
            "rain*",
            "-",
            "a-b",
            "c:d",
            "(",
            ")",
            "&",
            "|",
            "!",
            ":*",
        )
        worse = (
            "<->",
            "'); DROP TABLE sessions; --",
            "\\",
            "%",
            "_",
            "{}",
            "^cats",
            "a\0b",
            "\ud800",
            "",
            " ",
            "\u2028",
        )
        for words in (*odd, *worse):
            await store.search(words)
        for words in ("cats", "heavy", "quoted", "dogs cats"):
            assert await self._places(store, words) == {("s", 1)}, words

    async def test_a_limit_is_kept(self, store: Store) -> None:
        await write(store, "s", *(question(f"rain {number}") for number in range(5)))

        assert len(await store.search("rain", limit=3)) == 3
        assert len(await store.search("rain")) == 5

    async def test_odd_text_is_searched_around(self, store: Store) -> None:
        said = MessageAdded(user("rain\0bow \ud800 needle ", "x" * 300_000))
        await write(store, "s", said, answer("\0"), answer("\udfff"), answer(""))

        assert await self._places(store, "needle") == {("s", 1)}

    async def test_what_is_deleted_is_not_found(self, store: Store) -> None:
        await write(store, "s", question("umbrella"))
        await write(store, "t", question("umbrella"))
        await store.delete("s")

        assert await self._places(store, "umbrella") == {("t", 1)}

    async def test_what_forks_share_is_found_once(self, store: Store) -> None:
        await write(store, "s", question("umbrella"))
        fork = await store.fork("s")
        await write(store, fork, answer("my umbrella"))

        assert await self._places(store, "umbrella") == {("s", 1), (fork, 2)}

    async def test_the_index_can_be_made_anew(self, store: Store) -> None:
        await write(store, "s", *turn(), question("umbrella"))
        before = await self._places(store, "oslo")

        assert await store.reindex() >= 2
        assert await self._places(store, "oslo") == before
        assert await self._places(store, "umbrella") == {("s", 8)}

    async def _places(self, store: Store, words: str) -> set[tuple[str, int]]:
        hits = await store.search(words)
        assert len({(hit.session, hit.seq) for hit in hits}) == len(hits)
        return {(hit.session, hit.seq) for hit in hits}
