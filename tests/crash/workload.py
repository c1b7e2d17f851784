"""The workload of a store whose process is killed: leases, appends, forks and all other operations.

Before it continues, it logs each operation that it starts and each acknowledgement, with one write to a file. It can run
again on an incomplete store and then does what is missing, which a check uses to finish it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from typing import Any

from crash.experiments import INDEX_DELAY, Experiment, set_index_delay
from tenuto.core.blocks import Text, ToolUse
from tenuto.core.inbox import Steer
from tenuto.core.journal import (
    CallFinished,
    CallStarted,
    Configured,
    EntryDraft,
    MessageAdded,
    ReplyReceived,
    RequestStarted,
    RunEnded,
)
from tenuto.core.messages import AssistantMessage, ToolResult, UserMessage
from tenuto.core.stored import make_draft
from tenuto.errors import BudgetExceeded, InboxNotEmpty, LeaseLost, SessionInUse, SessionNotFound, StoreError
from tenuto.store.export import export_session, import_session
from tenuto.store.protocol import BudgetChange, Lease
from tenuto.store.sql_store import SqlStore

AT = 1_700_000_000_000
LARGE = "large " * 12_000
"""More than an entry stores inline; searches do not index it, which would take long."""


class ProgressLog:
    """The progress log."""

    def __init__(self, path: str | None) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = None if path is None else os.open(path, flags, 0o600)

    def __call__(self, what: str, **facts: Any) -> None:
        if self._file is not None:
            os.write(self._file, json.dumps({"what": what, **facts}).encode() + b"\n")


# --- the plan --------------------------------------------------------------------------------------------------------


class Plan:
    """The entries of a session in batches of appends; the first may belong to its parent."""

    def __init__(self, id: str, *batches: list[Any], parent: str = "", at: int = 0) -> None:
        self.id = id
        self.parent = parent
        self.at = at
        self.drafts: list[EntryDraft] = PLANS[parent].drafts[:at] if parent else []
        self.heads = [at]
        self.batches: list[tuple[int, list[EntryDraft]]] = []
        for batch in batches:
            first = len(self.drafts)
            some = [make_draft(act, id=f"{id}-{n}", time_ms=AT + n) for n, act in enumerate(batch, first + 1)]
            self.drafts = self.drafts + some
            self.batches.append((len(self.drafts), some))
            self.heads.append(len(self.drafts))


def _talk(*words: str) -> list[Any]:
    return [MessageAdded(UserMessage((Text(word),))) for word in words]


def _called(*ids: str) -> ReplyReceived:
    return ReplyReceived(AssistantMessage((Text("marked"), *(ToolUse(id, "look", "{}") for id in ids))))


PLANS: dict[str, Plan] = {}
for _made in (
    lambda: Plan(
        "alpha",
        [Configured("sim/chat", agent="crashed"), *_talk("marked hello")],
        [RequestStarted("sim/chat")],
        [
            _called("c1", "c2"),
            CallStarted("c1", 0),
            CallFinished(ToolResult("c1", "marked"), 0),
            CallFinished(ToolResult("c2", "marked"), 1),
            RunEnded("completed", LARGE),
        ],
    ),
    lambda: Plan("beta", _talk("one"), _talk("marked two", "three")),
    lambda: Plan("gamma", [*_talk("marked branch"), RunEnded("waiting", LARGE)], parent="alpha", at=4),
    lambda: Plan("delta", parent="gamma", at=3),
    lambda: Plan("lent", _talk("mine"), _talk("marked theirs")),
    lambda: Plan("inbox", _talk("one"), _talk("marked two"), _talk("marked three"), [RunEnded("completed")]),
    lambda: Plan("made"),
    lambda: Plan("meant"),
    lambda: Plan("house", [*_talk("marked house"), RunEnded("failed", LARGE)]),
    lambda: Plan("idle", _talk("marked idle")),
    lambda: Plan("doomed", [*_talk("marked and gone"), RunEnded("failed", LARGE + "doomed")]),
    lambda: Plan("doomed-too", parent="doomed", at=1),
):
    _plan = _made()
    PLANS[_plan.id] = _plan
PLANS["copy"] = Plan("copy")
PLANS["copy"].drafts = PLANS["house"].drafts
PLANS["copy"].heads.append(len(PLANS["house"].drafts))
STRAY = make_draft(RunEnded("a write that must be refused"), id="stray", time_ms=AT)
EXPECTED_SESSIONS = {
    "making": set(),
    "writing": {"alpha", "beta", "gamma", "delta", "lent", "inbox"},
    "keeping": {"house", "idle", "copy"},
}
"""The sessions at the end of each scenario."""


def marked(scenario: str) -> set[tuple[str, int]]:
    """Return the entries that a search for `marked` finds in the end: each once, in the session that wrote it."""
    found = ((id, seq, draft) for id in EXPECTED_SESSIONS[scenario] for seq, draft in enumerate(PLANS[id].drafts, 1))
    return {(id, seq) for id, seq, draft in found if seq > PLANS[id].at and b"marked" in draft.body}


# --- the operations --------------------------------------------------------------------------------------------------


async def play(experiment: Experiment, say: ProgressLog, first: SqlStore, second: SqlStore) -> None:
    """Run the scenario of an experiment, or the missing part of it."""
    if experiment.scenario == "making":
        await take(first, say, "made")  # the store releases it when it is closed
    elif experiment.scenario == "keeping":
        await _keep(first, say)
        await _move(first, experiment, say)
        await _idle(experiment, say)
    else:
        await _together(first, say)
        await _branch(first, say)
        await _lend(first, second, say)
        await _deliver(first, second, say)


async def play_again(experiment: Experiment, say: ProgressLog) -> None:
    """Run the scenario in new stores."""
    async with experiment.store() as first, experiment.store() as second:
        await play(experiment, say, first, second)


async def take(store: SqlStore, say: ProgressLog, session: str, **how: Any) -> Lease:
    """Acquire a lease."""
    say("leasing", session=session, **how)
    lease = await store.lease(session, **how)
    say("leased", session=session, fence=lease.fence, head=lease.head)
    return lease


async def write(store: SqlStore, say: ProgressLog, lease: Lease, upto: int | None = None) -> Lease:
    """Append the missing batches."""
    for head, drafts in PLANS[lease.session].batches:
        if lease.head < head and (upto is None or head <= upto):
            say("appending", session=lease.session, head=head)
            lease = await store.append(lease, drafts)
            say("appended", session=lease.session, head=lease.head, fence=lease.fence)
    return lease


async def free(store: SqlStore, say: ProgressLog, lease: Lease) -> None:
    """Release a lease."""
    await store.release(lease)
    say("released", session=lease.session)


async def fork(store: SqlStore, say: ProgressLog, session: str) -> None:
    """Fork a session as planned, if it does not exist."""
    plan = PLANS[session]
    try:
        await store.session(session)
    except SessionNotFound:
        say("forking", session=session)
        at = None if plan.at == len(PLANS[plan.parent].drafts) else plan.at
        await store.fork(plan.parent, at=at, id=session)
        say("forked", session=session)


async def _together(store: SqlStore, say: ProgressLog) -> None:
    """Append to several sessions in one commit; a failing append is rolled back alone."""
    alpha, beta = await take(store, say, "alpha"), await take(store, say, "beta")
    before = alpha
    alpha = await write(store, say, alpha, upto=2)
    if alpha is not before:
        again = await store.append(before, PLANS["alpha"].batches[0][1])  # a repeated append has no effect
        assert again.head == alpha.head
    nobody = Lease(session="beta", owner="nobody", fence=beta.fence + 1000, head=beta.head)
    gate = threading.Event()
    blocker = store._state().writer.submit(lambda driver: gate.wait(), alone=True)
    some = [
        asyncio.ensure_future(work)
        for work in (write(store, say, alpha, upto=3), _refused(store, nobody), write(store, say, beta, upto=1))
    ]
    await asyncio.sleep(0)  # each append is in the queue
    gate.set()
    await blocker
    alpha, _, beta = await asyncio.gather(*some)
    await free(store, say, await write(store, say, alpha))
    await write(store, say, beta)
    await free(store, say, beta)


async def _refused(store: SqlStore, lease: Lease) -> None:
    with contextlib.suppress(LeaseLost):
        await store.append(lease, [STRAY])
        raise AssertionError("a stray write was taken")


async def _branch(store: SqlStore, say: ProgressLog) -> None:
    """Fork sessions, also a fork below its fork point."""
    await fork(store, say, "gamma")
    lease = await write(store, say, await take(store, say, "gamma"))
    await free(store, say, lease)
    await fork(store, say, "delta")
    assert len(await store.read("delta", after=1)) == len(PLANS["delta"].drafts) - 1


async def _lend(first: SqlStore, second: SqlStore, say: ProgressLog) -> None:
    """Refuse a second holder, let it take over, and refuse the first one."""
    mine = await write(first, say, await take(first, say, "lent"), upto=1)
    with contextlib.suppress(SessionInUse):
        await second.lease("lent")
        raise AssertionError("a session that is held was given away")
    theirs = await write(second, say, await take(second, say, "lent", takeover=True))
    await _refused(first, mine)
    theirs = await second.renew(theirs)
    say("renewed", session="lent", fence=theirs.fence)
    await free(second, say, theirs)


async def _deliver(first: SqlStore, second: SqlStore, say: ProgressLog) -> None:
    """Post items, take each one with its entry, and write the last entry only if the inbox is empty."""
    [_, one], *delivered, [_, end] = PLANS["inbox"].batches
    lease = await take(first, say, "inbox", owner="job", generation=1)
    lease = await _append(first, say, lease, one)
    for _, [draft] in delivered:
        say("posting", id=draft.id)
        await second.post("inbox", Steer(draft.payload.message), id=draft.id)
        say("posted", id=draft.id)
    items = {item.id: item.number for item in await first.inbox("inbox")}
    assert (await first.posted()).get("inbox", 0) == max(items.values(), default=0)
    if items:
        with contextlib.suppress(InboxNotEmpty):
            await first.append(lease, [STRAY], unless_posted=True)
            raise AssertionError("an inbox item was passed over")
    for _, [draft] in delivered:
        taking = [items[draft.id]] if draft.id in items else []
        lease = await _append(first, say, lease, [draft], taking=taking)
    with contextlib.suppress(BudgetExceeded):
        await first.append(lease, [STRAY], budget=BudgetChange(root="inbox", spent_tokens=5, limit_tokens=4))
        raise AssertionError("the budget was exceeded")
    if lease.head < PLANS["inbox"].heads[-1]:
        await _append(first, say, lease, end, unless_posted=True, release=True)
        say("released", session="inbox")
    else:
        await free(first, say, lease)


async def _append(store: SqlStore, say: ProgressLog, lease: Lease, drafts: list[EntryDraft], **how: Any) -> Lease:
    """Append drafts that are missing; the budget has the number of entries."""
    head = PLANS[lease.session].drafts.index(drafts[-1]) + 1
    if lease.head >= head:
        return lease
    say("appending", session=lease.session, head=head)
    lease = await store.append(
        lease, drafts, budget=BudgetChange(root=lease.session, spent_tokens=head, limit_tokens=4), **how
    )
    say("appended", session=lease.session, head=lease.head, fence=lease.fence)
    return lease


async def _keep(store: SqlStore, say: ProgressLog) -> None:
    """Rename, archive, delete, search and collect garbage."""
    lease = await write(store, say, await take(store, say, "house"))
    await free(store, say, lease)
    with contextlib.suppress(SessionNotFound):
        await store.find("last")  # it may be archived by an earlier run
    await store.rename("house", "H")
    say("renamed", session="house", name="H")
    await store.archive("house")
    say("archived", session="house")
    assert await store.find("H") == "house"
    lease = await write(store, say, await take(store, say, "doomed"))
    await free(store, say, lease)
    await fork(store, say, "doomed-too")
    with contextlib.suppress(StoreError):
        await store.delete("doomed")
        raise AssertionError("a session that others share was removed")
    say("deleting", session="doomed")
    await store.delete("doomed", children=True)
    say("deleted", session="doomed")
    say("leasing", session="meant")
    pending_lease = asyncio.ensure_future(store.lease("meant"))
    await asyncio.sleep(0)
    pending_lease.cancel()  # an abandoned lease is released
    await asyncio.wait([pending_lease])
    await store.gc()
    await store.search("marked")
    await store.reindex()
    await store.sessions(archived=None)
    await store.stats()
    assert not await store.verify()


async def _move(store: SqlStore, experiment: Experiment, say: ProgressLog) -> None:
    """Export and import a session with another id; copy the file."""
    lines = [line async for line in export_session(store, "house")]
    say("leasing", session="copy")
    say("appending", session="copy", head=len(lines) - 1)
    done = await import_session(store, lines, id="copy")
    say("appended", session="copy", head=done.entries, fence=0)
    say("released", session="copy")
    if experiment.kind == "sqlite":
        to = experiment.directory / "home" / "copy.db"
        to.unlink(missing_ok=True)  # interrupted in an earlier run
        await store.backup(str(to))
        say("copied")


async def _idle(experiment: Experiment, say: ProgressLog) -> None:
    """Let the writer thread renew leases and index entries."""
    set_index_delay(0.0)
    async with experiment.store(ttl_ms=30) as store:
        lease = await write(store, say, await take(store, say, "idle"))
        crew = store._state()
        before = crew.leases.next_at
        while crew.leases.next_at == before or crew.index.pending:
            await asyncio.sleep(0.001)
        await free(store, say, lease)
    set_index_delay(INDEX_DELAY)
