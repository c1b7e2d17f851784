"""Check the store of a killed process against its progress log: no acknowledged data may be lost."""

from __future__ import annotations

import json
from collections.abc import Iterator

from crash.experiments import Experiment
from crash.workload import EXPECTED_SESSIONS, PLANS, ProgressLog, marked, play
from tenuto.core.journal import Entry, sha256_hex
from tenuto.errors import SessionInUse, SessionNotFound, StoreError
from tenuto.store.protocol import Lease
from tenuto.store.sql_store import SqlStore


class Acknowledged:
    """The operations that the killed process had started, and those that were acknowledged."""

    def __init__(self, experiment: Experiment) -> None:
        self.started: set[str] = set()
        self.sent = {id: plan.at for id, plan in PLANS.items()}
        self.heads: dict[str, int] = {}
        self.fences: dict[str, int] = {}
        self.written: dict[tuple[str, int], int] = {}
        self.forked: set[str] = set()
        self.deleting = self.deleted = self.archived = self.copied = False
        self.renamed: dict[str, str] = {}
        self.posted: set[str] = set()
        self.forced = False
        lines = experiment.log_path.read_bytes().split(b"\n") if experiment.log_path.exists() else []
        for line in filter(None, lines):
            fact = json.loads(line)
            getattr(self, f"_{fact.pop('what')}", self._nothing)(**fact)

    def _nothing(self, **_) -> None:
        pass

    def _leasing(self, session: str, takeover: bool = False, **_) -> None:
        self.started.add(session)
        self.forced |= takeover

    def _leased(self, session: str, fence: int, head: int) -> None:
        self.fences[session] = fence

    def _renewed(self, session: str, fence: int) -> None:
        self.forced &= session != "lent"

    def _released(self, session: str) -> None:
        self.forced &= session != "lent"

    def _appending(self, session: str, head: int) -> None:
        self.sent[session] = head

    def _appended(self, session: str, head: int, fence: int) -> None:
        before = self.heads.get(session, PLANS[session].at)
        self.written |= {(session, seq): fence for seq in range(before + 1, head + 1) if fence}
        self.heads[session] = head

    def _posted(self, id: str) -> None:
        self.posted.add(id)

    def _forking(self, session: str) -> None:
        self.started.add(session)

    def _forked(self, session: str) -> None:
        self.forked.add(session)

    def _deleting(self, session: str) -> None:
        self.deleting = True

    def _deleted(self, session: str) -> None:
        self.deleted = True

    def _renamed(self, session: str, name: str) -> None:
        self.renamed[session] = name

    def _archived(self, session: str) -> None:
        self.archived = True

    def _copied(self) -> None:
        self.copied = True


class StoreCheck:
    """Check one experiment. `wrong` has the violations; `waiting` counts leases that could not be acquired."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.acknowledged = Acknowledged(experiment)
        self.wrong: list[str] = []
        self.waiting = 0
        self.taken: list[Lease] = []

    async def look(self, store: SqlStore, other: SqlStore, finish: bool) -> None:
        """Take over all sessions, compare them with the log, and finish the workload if `finish` is set.

        Any error of the store is a violation.
        """
        try:
            for session in sorted(self.acknowledged.started):
                await self._take_over(store, session)
            await self._compare(store)
            for lease in self.taken:
                await store.release(lease)
            await self._copy()
            if finish:
                await play(self.experiment, ProgressLog(None), store, other)
                await self._end(store)
        except (StoreError, AssertionError) as exc:
            self.wrong.append(f"{type(exc).__name__}: {exc}")

    def _expect(self, true: bool, what: str) -> None:
        if not true:
            self.wrong.append(what)

    def _may_be_gone(self, session: str) -> bool:
        return self.acknowledged.deleting and session.startswith("doomed")

    # --- comparison ---

    async def _take_over(self, store: SqlStore, session: str) -> None:
        """Check that the lease of a dead holder is free at once, with a higher fence and without losses."""
        if PLANS[session].parent or self._may_be_gone(session):  # a lease would create it
            try:
                await store.session(session)
            except SessionNotFound:
                expected = session in self.acknowledged.forked or session in self.acknowledged.heads
                self._expect(self._may_be_gone(session) or not expected, f"{session}: acknowledged, and gone")
                return
        try:
            lease = await store.lease(session)
        except SessionInUse as exc:
            # After a takeover, the new holder has no file lock, so its death is not detected.
            self._expect(session == "lent" and self.acknowledged.forced, f"{session}: its dead holder keeps it: {exc}")
            self.waiting += 1
            lease = await store.lease(session, takeover=True)
        self.taken.append(lease)
        acknowledged = self.acknowledged
        # Where many share a schema, the `gc` of another experiment removes a session without entries and a live holder.
        removed = bool(self.experiment.prefix) and not lease.head
        higher = lease.fence > acknowledged.fences.get(session, 0)
        self._expect(higher or removed, f"{session}: the fence fell back to {lease.fence}")
        if not self._may_be_gone(session):
            self._expect(
                lease.head >= acknowledged.heads.get(session, 0),
                f"{session}: head {lease.head} of {acknowledged.heads}",
            )
        self._expect(lease.head <= acknowledged.sent[session], f"{session}: head {lease.head}, never sent")
        self._expect(lease.head in PLANS[session].heads, f"{session}: half of an append, {lease.head}")

    async def _compare(self, store: SqlStore) -> None:
        acknowledged = self.acknowledged
        page = await store.sessions(archived=None, limit=1000)
        there = {session.id: session for session in page.sessions}
        for session in sorted(PLANS):
            found = there.get(session)
            if found is None:
                expected = session in acknowledged.forked or acknowledged.heads.get(session)
                self._expect(not expected or self._may_be_gone(session), f"{session}: acknowledged, and not listed")
                continue
            plan = PLANS[session]
            self._expect((found.parent, found.forked_at) == (plan.parent, plan.at), f"{session}: forked elsewhere")
            self._expect(
                found.name == acknowledged.renamed.get(session, found.name), f"{session}: called {found.name!r}"
            )
            for what in self._differences(session, await store.read(session), acknowledged.heads.get(session, 0)):
                self._expect(False, what)
        if "inbox" in there:
            await self._compare_inbox(store)
        self._expect({*there} <= {*PLANS}, f"unexpected sessions: {sorted({*there} - {*PLANS})}")
        self._expect(
            not (acknowledged.deleted and {"doomed", "doomed-too"} & {*there}), "a deleted session exists again"
        )
        self._expect(not acknowledged.archived or there["house"].archived, "house: archived, but listed")
        self._expect(("doomed" in there) >= ("doomed-too" in there), "the child session has lost its parent")
        for fault in await store.verify():
            self._expect(False, f"verify: {fault}")

    async def _compare_inbox(self, store: SqlStore) -> None:
        """Check that a posted item is either in the inbox or in the journal, and that the budget has every append."""
        entries = [entry.id for entry in await store.read("inbox")]
        items = [item.id for item in await store.inbox("inbox")]
        self._expect(len({*entries, *items}) == len(entries + items), f"inbox: twice in {entries} and {items}")
        self._expect(
            self.acknowledged.posted <= {*entries, *items},
            f"inbox: lost {self.acknowledged.posted - {*entries, *items}}",
        )
        [member] = await store.budget("inbox")
        self._expect(member.spent_tokens == len(entries), f"inbox: {member} after {len(entries)} entries")

    def _differences(self, session: str, entries: list[Entry], acknowledged: int) -> Iterator[str]:
        planned = PLANS[session].drafts
        if len(entries) < acknowledged and not self._may_be_gone(session):
            yield f"{session}: {acknowledged} entries were acknowledged, and {len(entries)} are there"
        for seq, entry in enumerate(entries, 1):
            draft = planned[seq - 1] if seq <= len(planned) else None
            if draft is None or entry.id != draft.id:
                yield f"{session}: entry {seq} is {entry.id!r}, which was never sent"
            elif (entry.seq, entry.digest, sha256_hex(entry.body)) != (seq, draft.digest, draft.digest):
                yield f"{session}: entry {seq} is not what was sent"
            elif entry.fence != self.acknowledged.written.get((session, seq), entry.fence):
                yield f"{session}: entry {seq} has the fence {entry.fence}"

    async def _copy(self) -> None:
        """Check that an acknowledged copy is complete."""
        if self.acknowledged.copied:
            async with SqlStore(self.experiment.engine("copy.db")) as copy:
                faults, entries = await copy.verify(), await copy.read("house")
            self._expect(not faults and len(entries) == len(PLANS["house"].drafts), f"the copy: {faults}")

    # --- the end ---

    async def _end(self, store: SqlStore) -> None:
        page = await store.sessions(archived=None, limit=1000)
        self._expect(
            {session.id for session in page.sessions} == EXPECTED_SESSIONS[self.experiment.scenario],
            "in the end, other sessions are there",
        )
        for session in sorted(EXPECTED_SESSIONS[self.experiment.scenario]):
            planned = len(PLANS[session].drafts)
            for what in self._differences(session, await store.read(session), planned):
                self._expect(False, f"in the end, {what}")
        if "inbox" in EXPECTED_SESSIONS[self.experiment.scenario]:
            self._expect(await store.inbox("inbox") == [], "in the end, the inbox has items")
        hits = [(hit.session, hit.seq) for hit in await store.search("marked", limit=1000)]
        self._expect(
            len(hits) == len({*hits}) and {*hits} == marked(self.experiment.scenario),
            f"in the end, found: {sorted(hits)}",
        )
