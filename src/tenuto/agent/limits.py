"""How far a run may go, and how far it has gone: counted from its entries, so that a kill does not set it back to nothing."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TypeVar

import msgspec

from tenuto.core.journal import Act, Failed, Replied, Returned, Said, Started, Strange
from tenuto.core.messages import Usage
from tenuto.errors import LimitReached

__all__ = ["TOO_MANY", "Limits", "Spent"]

TOO_MANY = "limit"
"""The detail of a call that was denied because as many as may be were made."""
T = TypeVar("T", int, float, Decimal)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How far one run may go: from what the user says to the answer. None means: no limit.

    `turns` are replies of the model, `tokens` what all of them and failed attempts used, `usd` what that cost, sub-agents
    included; `tool_calls` are calls that may be started: those above are denied, and the run ends. `seconds` is how long a
    run may take in this process. A call of the model that has begun runs to its end, so the last one may go over. With a
    limit in USD, a reply whose cost is not known ends the run: it could not be kept.
    """

    turns: int | None = 100
    tokens: int | None = None
    usd: Decimal | float | str | None = None
    seconds: float | None = None
    tool_calls: int | None = None

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

    def within(self, other: Limits) -> Limits:
        """Return the narrower of the two, limit by limit."""
        return Limits(
            turns=_least(self.turns, other.turns),
            tokens=_least(self.tokens, other.tokens),
            usd=_least(self.money, other.money),
            seconds=_least(self.seconds, other.seconds),
            tool_calls=_least(self.tool_calls, other.tool_calls),
        )


def _number(name: str, given: object) -> Decimal:
    try:
        number = Decimal(str(given))
    except InvalidOperation:
        number = Decimal("NaN")
    if number.is_nan() or (isinstance(given, str) and name != "usd"):
        raise TypeError(f"a limit of {given!r} {name} is no number")
    return number


def _least(one: T | None, other: T | None) -> T | None:
    return min((value for value in (one, other) if value is not None), default=None)


class Spent:
    """What a run has used so far."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.turns = 0
        self.tool_calls = 0
        """Calls that were started, and those that were denied because there were so many."""
        self.tokens = 0
        self.usage = Usage()
        self.usd = Decimal(0)
        self.unpriced = 0

    def take(self, act: Act | Strange) -> None:
        """Count what happened. What a user says begins a new run."""
        if isinstance(act, Said):
            self.clear()
        elif isinstance(act, Replied):
            self.turns += 1
            self._book(act.usage, act.cost)
            self.unpriced += not act.cost
        elif isinstance(act, Failed):
            self._book(act.usage, act.cost)
        elif isinstance(act, Started):
            self.tool_calls += act.attempt == 1
        elif isinstance(act, Returned):
            self.tool_calls += act.outcome == "denied" and act.detail == TOO_MANY
            self._book(act.usage, act.cost)
            self.unpriced += act.usage is not None and not act.cost

    def _book(self, usage: Usage | None, cost: str) -> None:
        if usage is not None:
            self.usage += usage
            self.tokens += usage.total_tokens or 0
        if cost:
            self.usd += Decimal(cost)

    def over(self, limits: Limits) -> LimitReached | None:
        """Say which limit leaves no room for another turn."""
        money = limits.money
        if limits.turns is not None and self.turns >= limits.turns:
            return _reached("turns", f"{self.turns} turns of {limits.turns} are used")
        if limits.tokens is not None and self.tokens >= limits.tokens:
            return _reached("tokens", f"{self.tokens} tokens of {limits.tokens} are used")
        if limits.tool_calls is not None and self.tool_calls > limits.tool_calls:
            return _reached("tool_calls", f"{self.tool_calls} tool calls were wanted, {limits.tool_calls} may be made")
        if money is not None and self.usd >= money:
            return _reached("usd", f"{self.usd} USD of {money} are spent")
        if money is not None and self.unpriced:
            return _reached(
                "usd", f"{self.unpriced} replies did not tell what they cost, so {money} USD cannot be kept"
            )
        return None

    def left(self, limits: Limits) -> Limits:
        """Return what is left of the limits: for a sub-agent, whose turns and calls are its own."""
        tokens = None if limits.tokens is None else max(limits.tokens - self.tokens, 1)
        money = None if limits.money is None else max(limits.money - self.usd, Decimal("0.000001"))
        return Limits(turns=None, tokens=tokens, usd=money)


def _reached(limit: str, how: str) -> LimitReached:
    return LimitReached(
        limit,
        f"limit reached: {how}; nothing is lost: go on with a higher limit, or say something new to begin a new run",
    )
