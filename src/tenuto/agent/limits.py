"""How far a run may go, and how far it has gone: counted from its entries, so that a kill does not set it back to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

import msgspec

from tenuto.core.journal import (
    CallFinished,
    CallStarted,
    EntryPayload,
    MessageAdded,
    ReplyReceived,
    RequestFailed,
    UnknownPayload,
)
from tenuto.core.messages import Usage
from tenuto.errors import LimitReached

__all__ = ["TOO_MANY", "Budget", "Limits", "Reservation", "Spent"]

TOO_MANY = "limit"
"""The detail of a call that was denied because as many as may be were made."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How far one run may go: from what the user says to the answer. None means: no limit.

    A request that was sent runs to its end, so the last reply may exceed `tokens` or `usd`. A session and its sub-agents
    share these two limits.
    """

    turns: int | None = 100
    """Replies of the model."""
    tokens: int | None = None
    """Tokens of all replies and failed attempts. A reply that reports no token counts ends the run."""
    usd: Decimal | float | str | None = None
    """Cost of all replies and failed attempts. A reply whose cost is unknown ends the run."""
    seconds: float | None = None
    """Duration of the run in this process."""
    tool_calls: int | None = None
    """Tool calls of the run. Calls above the limit are denied, and the run ends."""
    calls_per_reply: int | None = 256
    """Tool calls of one reply. Calls above the limit are denied, and the run continues."""
    parallel_calls: int | None = 16
    """Tool calls that run at the same time."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            given = getattr(self, name)
            if given is not None and not _number(name, given) > 0:
                raise ValueError(
                    f"a limit of {given} {name} lets nothing happen: give more than 0, or None for no limit"
                )

    @property
    def money(self) -> Decimal | None:
        """The limit in USD, exactly."""
        return None if self.usd is None else Decimal(str(self.usd))


def _number(name: str, given: object) -> Decimal:
    try:
        number = Decimal(str(given))
    except InvalidOperation:
        number = Decimal("NaN")
    if number.is_nan() or (isinstance(given, str) and name != "usd"):
        raise TypeError(f"a limit of {given!r} {name} is no number")
    return number


class Spent:
    """What a run has used so far."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Start a new run."""
        self.turns = 0
        self.tool_calls = 0
        """Calls that were started, and those that were denied because of the limit."""
        self.tokens = 0
        self.usage = Usage()
        self.usd = Decimal(0)
        self.unpriced = 0
        """Replies whose cost is unknown."""
        self.uncounted = 0
        """Replies that reported no usable token counts."""

    def record(self, act: EntryPayload | UnknownPayload) -> None:
        """Count an entry. A message of the user starts a new run."""
        if isinstance(act, MessageAdded):
            self.clear()
        elif isinstance(act, ReplyReceived):
            self.turns += 1
            self._book(act.usage, act.cost)
            self.unpriced += not act.cost
            self.uncounted += not _tokens(act.usage)
        elif isinstance(act, RequestFailed):
            self._book(act.usage, act.cost)
        elif isinstance(act, CallStarted):
            self.tool_calls += act.attempt == 1
        elif isinstance(act, CallFinished):
            self.tool_calls += act.outcome == "denied" and act.detail == TOO_MANY
            self._book(act.usage, act.cost)
            self.unpriced += act.usage is not None and not act.cost

    def _book(self, usage: Usage | None, cost: str) -> None:
        if usage is not None:
            self.usage += usage
            self.tokens += _tokens(usage)
        if cost:
            self.usd += Decimal(cost)


def _tokens(usage: Usage | None) -> int:
    """Return the tokens of a reply: the larger of the provider's total and the sum of the buckets.

    0 means that the provider reported nothing usable. A negative count is not usable.
    """
    if usage is None:
        return 0
    buckets = (
        usage.input_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
    )
    return max(usage.total_tokens or 0, sum(max(count or 0, 0) for count in buckets), 0)


class Budget:
    """The limits of a session, which its sub-agents share: their tokens and costs count in every session above them.

    A request reserves an estimate before it is sent. While other requests of the family are in flight, it waits until the
    estimate fits; a request that is alone is sent as long as the limit is not reached. So a limit is exceeded by at most
    one reply.
    """

    def __init__(self, limits: Limits, spent: Spent, parent: Budget | None = None) -> None:
        self.limits = limits
        self._spent = spent
        self.parent: Budget | None = parent
        self.children: list[Budget] = []
        self.reserved: list[Reservation] = []
        self.waiting: list[asyncio.Future[None]] = []
        if parent is not None:
            parent.children.append(self)

    def close(self) -> None:
        """Stop counting in the session above: its journal has the result, with the usage."""
        if self.parent is not None:
            self.parent.children.remove(self)

    def exceeded(self) -> LimitReached | None:
        """Return the limit that leaves no room for another turn, of this session or of one above it."""
        limits, spent = self.limits, self._spent
        if limits.turns is not None and spent.turns >= limits.turns:
            return _reached("turns", f"{spent.turns} turns of {limits.turns} are used")
        if limits.tool_calls is not None and spent.tool_calls > limits.tool_calls:
            return _reached("tool_calls", f"{spent.tool_calls} tool calls were wanted, {limits.tool_calls} may be made")
        return next(filter(None, (budget.spent_too_much() for budget in self._family())), None)

    async def reserve(self, tokens: int, usd: Decimal | None) -> Reservation:
        """Reserve the estimated tokens and cost of a request. Raise `LimitReached` if nothing is left.

        `usd` is None for a model whose price is unknown.
        """
        family = [*self._family()]
        while True:
            over = self.exceeded()
            if over is not None:
                raise over
            if all(budget.has_room(tokens, usd) for budget in family):
                return Reservation(tokens, usd or Decimal(0), family)
            changed = asyncio.get_running_loop().create_future()
            family[-1].waiting.append(changed)
            await changed

    def _family(self) -> Iterator[Budget]:
        budget: Budget | None = self
        while budget is not None:
            yield budget
            budget = budget.parent

    def total(self) -> tuple[int, Decimal, int, int]:
        """Return tokens, cost, unpriced and uncounted replies, running sub-agents included."""
        spent = self._spent
        tokens, usd, unpriced, uncounted = spent.tokens, spent.usd, spent.unpriced, spent.uncounted
        for child in self.children:
            more = child.total()
            tokens, usd, unpriced, uncounted = (
                tokens + more[0],
                usd + more[1],
                unpriced + more[2],
                uncounted + more[3],
            )
        return tokens, usd, unpriced, uncounted

    def spent_too_much(self) -> LimitReached | None:
        """Return the limit on tokens or money that is used up."""
        tokens, usd, unpriced, uncounted = self.total()
        limit, money = self.limits.tokens, self.limits.money
        if limit is not None and tokens >= limit:
            return _reached("tokens", f"{tokens} tokens of {limit} are used")
        if limit is not None and uncounted:
            return _reached("tokens", f"the provider reported no token counts, so {limit} tokens cannot be enforced")
        if money is not None and usd >= money:
            return _reached("usd", f"{usd} USD of {money} are spent")
        if money is not None and unpriced:
            return _reached("usd", f"the cost of a reply is unknown, so {money} USD cannot be enforced")
        return None

    def has_room(self, tokens: int, usd: Decimal | None) -> bool:
        """Whether a request may be sent next to those in flight."""
        limit, money = self.limits.tokens, self.limits.money
        if not self.reserved:
            return True
        used, paid, *_ = self.total()
        if limit is not None and used + sum(one.tokens for one in self.reserved) + tokens > limit:
            return False
        if money is None:
            return True
        return usd is not None and paid + sum(one.usd for one in self.reserved) + usd <= money


class Reservation:
    """What a request may use; released when its reply is recorded."""

    def __init__(self, tokens: int, usd: Decimal, family: list[Budget]) -> None:
        self.tokens = tokens
        self.usd = usd
        self._family = family
        for budget in family:
            budget.reserved.append(self)

    def release(self) -> None:
        """Let the requests that wait look again."""
        for budget in self._family:
            budget.reserved.remove(self)
        root = self._family[-1]
        waiting, root.waiting = root.waiting, []
        for changed in waiting:
            if not changed.done():
                changed.set_result(None)


def _reached(limit: str, reason: str) -> LimitReached:
    return LimitReached(
        limit, f"limit reached: {reason}; the session is saved: continue with a higher limit, or send a new message"
    )
