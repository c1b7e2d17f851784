"""The limits of a run, and what it has used: counted from its entries, so that a kill does not reset the counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation

import msgspec

from tenuto.core.journal import (
    CallFinished,
    CallStarted,
    Compacted,
    EntryPayload,
    MessageAdded,
    ReplyReceived,
    RequestFailed,
    SteeringAdded,
    UnknownPayload,
)
from tenuto.core.messages import Usage
from tenuto.errors import BudgetExceeded, LimitReached
from tenuto.store.protocol import BudgetChange

TOO_MANY = "limit"
"""The detail of a call that was denied because the limit of tool calls was reached."""
FINAL_TOOL = "final_answer"
"""The name of the tool that takes the output of a run; its calls do not count."""
OUTPUT_REJECTED = "output"
"""The detail of a call whose arguments are an output that was rejected."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one run: from the user message to the answer. None means: no limit.

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
            value = getattr(self, name)
            if value is None:
                continue
            try:
                number = Decimal(str(value))
            except InvalidOperation:
                number = Decimal("NaN")
            if number.is_nan() or (isinstance(value, str) and name != "usd"):
                raise TypeError(f"invalid limit {name}={value!r}: use a number")
            if number <= 0:
                raise ValueError(f"invalid limit {name}={value}: use a number above 0, or None for no limit")

    @property
    def money(self) -> Decimal | None:
        """The limit in USD, exactly."""
        return None if self.usd is None else Decimal(str(self.usd))


class Spent(msgspec.Struct, frozen=True):
    turns: int = 0
    tool_calls: int = 0
    """Calls that were started, and those that were denied because of the limit."""
    tokens: int = 0
    usage: Usage = Usage()
    usd: Decimal = Decimal(0)
    unpriced: int = 0
    """Replies whose cost is unknown."""
    uncounted: int = 0
    """Replies that reported no usable token counts."""
    repairs: int = 0
    """Outputs that were rejected."""

    @property
    def cost(self) -> str:
        """The cost as the journal stores it; empty if it is unknown."""
        return "" if self.unpriced else str(self.usd)

    def after(self, payload: EntryPayload | UnknownPayload) -> Spent:
        """Return the usage after an entry. A message of the user starts a new run."""
        if isinstance(payload, MessageAdded):
            return Spent()
        if isinstance(payload, CallStarted):
            is_counted = payload.attempt == 1 and payload.name != FINAL_TOOL
            return msgspec.structs.replace(self, tool_calls=self.tool_calls + is_counted)
        if not isinstance(payload, ReplyReceived | RequestFailed | CallFinished | SteeringAdded | Compacted):
            return self
        is_reply, usage, cost = isinstance(payload, ReplyReceived), payload.usage, payload.cost
        is_denied = isinstance(payload, CallFinished) and (payload.outcome, payload.detail) == ("denied", TOO_MANY)
        is_call_repair = isinstance(payload, CallFinished) and payload.detail == OUTPUT_REJECTED
        is_repair = is_call_repair or (isinstance(payload, SteeringAdded) and payload.repair)
        needs_price = is_reply or (usage is not None and not isinstance(payload, RequestFailed))
        tokens = _tokens(usage)
        return Spent(
            turns=self.turns + is_reply,
            tool_calls=self.tool_calls + is_denied,
            tokens=self.tokens + tokens,
            usage=self.usage if usage is None else self.usage + usage,
            usd=self.usd + Decimal(cost or 0),
            unpriced=self.unpriced + (needs_price and not cost),
            uncounted=self.uncounted + (is_reply and not tokens),
            repairs=self.repairs + is_repair,
        )


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


class FamilyBudget:
    """The limits on tokens and cost that a session and its sub-agents share.

    The row of the root session in the store has what each member has used and reserved. A request reserves its estimate
    in the transaction that writes `RequestStarted`. It fits if no other request of the family is in flight and the limit
    is not reached, or if the estimate fits next to those in flight. So a limit is exceeded by at most one reply.
    """

    def __init__(
        self, session: str, limits: Limits, parent: FamilyBudget | None = None, *, shared: bool = False
    ) -> None:
        self._session = session
        self._limits = limits
        self._parent = parent
        self._root: FamilyBudget = parent._root if parent is not None else self
        root = self._root._limits
        self.shared = (parent is not None or shared) and (root.tokens is not None or root.usd is not None)

    def exceeded(self, spent: Spent) -> LimitReached | None:
        """Return the limit that leaves no room for another turn, as far as the counts of this session tell."""
        limits = self._limits
        if limits.turns is not None and spent.turns >= limits.turns:
            return limit_reached("turns", f"{spent.turns} turns of {limits.turns} are used")
        if limits.tool_calls is not None and spent.tool_calls > limits.tool_calls:
            return limit_reached(
                "tool_calls", f"{spent.tool_calls} tool calls were requested, the limit is {limits.tool_calls}"
            )
        budget: FamilyBudget | None = self
        while budget is not None:
            tokens, money = budget._limits.tokens, budget._limits.money
            if tokens is not None and spent.tokens >= tokens:
                return limit_reached("tokens", f"{spent.tokens} tokens of {tokens} are used")
            if tokens is not None and spent.uncounted:
                reason = f"the provider reported no token counts, so {tokens} tokens cannot be enforced"
                return limit_reached("tokens", reason)
            if money is not None and spent.usd >= money:
                return limit_reached("usd", f"{spent.usd} USD of {money} are used")
            if money is not None and spent.unpriced:
                return limit_reached("usd", f"the cost of a reply is unknown, so {money} USD cannot be enforced")
            budget = budget._parent
        return None

    def change(
        self,
        payloads: Iterable[EntryPayload],
        spent: Spent,
        reserve: tuple[int, Decimal | None] | None,
        forget: Sequence[str],
    ) -> BudgetChange | None:
        """Return the change of the family's budget that goes with these entries; None if there is none.

        `spent` includes the entries. `reserve` is the estimate of a request: tokens, and the cost if it is known.
        """
        counted = (MessageAdded, ReplyReceived, RequestFailed, CallFinished, SteeringAdded, Compacted)
        if not (reserve or any(isinstance(payload, counted) for payload in payloads)):
            return None
        limits = self._root._limits
        return BudgetChange(
            root=self._root._session,
            spent_tokens=spent.tokens,
            spent_usd=str(spent.usd),
            reserved_tokens=reserve[0] if reserve is not None else 0,
            reserved_usd=str(reserve[1] or 0) if reserve is not None else "0",
            limit_tokens=limits.tokens if reserve is not None else None,
            limit_usd=str(limits.money) if reserve is not None and limits.money is not None else None,
            forget=tuple(forget),
            reset=self._root is self and any(isinstance(payload, MessageAdded) for payload in payloads),
            single_may_exceed=True,
        )

    def limit_error(self, error: BudgetExceeded) -> LimitReached | None:
        """Return the limit that the family has reached; None if the request only has to wait for others in flight."""
        if Decimal(error.spent) < Decimal(error.limit):
            return None
        unit = "tokens" if error.limit_name == "tokens" else "USD"
        return limit_reached(error.limit_name, f"{error.spent} {unit} of {error.limit} are used")


def limit_reached(limit: str, reason: str) -> LimitReached:
    return LimitReached(
        limit, f"limit reached: {reason}; the session is saved: continue with a higher limit, or send a new message"
    )
