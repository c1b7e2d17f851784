"""Budgets of families of sessions: what each member has spent and reserved, in the row of the root session.

A budget change is part of the transaction that appends entries. Its values are absolute, so it can be sent again. A
reservation counts as long as the lease under which it was made is held: that of a dead member ends with its lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal

import msgspec

from tenuto.core import jsonio
from tenuto.errors import BudgetExceeded, SessionNotFound, StoreCorrupt
from tenuto.store.driver import Driver
from tenuto.store.leases import Leases
from tenuto.store.protocol import BudgetChange, BudgetMember, Lease
from tenuto.store.sessions import require_session, row_of

_READ = "SELECT budget FROM sessions WHERE id = ?"
_WRITE = "UPDATE sessions SET budget = ? WHERE id = ?"


def change(driver: Driver, leases: Leases, lease: Lease, budget: BudgetChange) -> None:
    """Write the values of the lease's session to the root session. Raise `BudgetExceeded`."""
    members = after_change(_read(driver, budget.root), budget, lease, _liveness(driver, leases))
    driver.change(_WRITE, (jsonio.encode(members), budget.root))


def read(driver: Driver, leases: Leases, root: str) -> list[BudgetMember]:
    """Return the members of a family, in order of their ids."""
    require_session(driver, root)
    return with_liveness(_read(driver, root), _liveness(driver, leases))


def find_problems(driver: Driver, root: str) -> Iterator[str]:
    """Yield the problem of the stored budget of a session."""
    try:
        _read(driver, root)
    except StoreCorrupt as exc:
        yield str(exc)


def _read(driver: Driver, root: str) -> list[BudgetMember]:
    rows = driver.rows(_READ, (root,))
    if not rows:
        raise SessionNotFound(f"there is no session {root[:80]!r}, which has the budget")
    try:
        return jsonio.decode_as(rows[0][0], list[BudgetMember]) if rows[0][0] else []
    except (jsonio.JsonError, TypeError) as exc:
        raise StoreCorrupt(f"the budget of session {root!r} cannot be read: {exc}; restore a backup") from exc


def _liveness(driver: Driver, leases: Leases) -> Callable[[BudgetMember], bool]:
    def is_live(member: BudgetMember) -> bool:
        row = row_of(driver, member.session)
        return row is not None and row.fence == member.fence and leases.is_held(row, leases.now(driver))

    return is_live


def with_liveness(members: Iterable[BudgetMember], is_live: Callable[[BudgetMember], bool]) -> list[BudgetMember]:
    return [msgspec.structs.replace(member, live=is_live(member)) for member in members]


def after_change(
    members: Iterable[BudgetMember], budget: BudgetChange, lease: Lease, is_live: Callable[[BudgetMember], bool]
) -> list[BudgetMember]:
    """Return the members after a change, in order of their ids. Raise `BudgetExceeded`."""
    own = BudgetMember(
        session=lease.session,
        fence=lease.fence,
        spent_tokens=budget.spent_tokens,
        spent_usd=budget.spent_usd,
        reserved_tokens=budget.reserved_tokens,
        reserved_usd=budget.reserved_usd,
    )
    left_out = (lease.session, *budget.forget)
    others = [member for member in members if not budget.reset and member.session not in left_out]
    reserving = [other for other in others if is_live(other) and (other.reserved_tokens or Decimal(other.reserved_usd))]
    for name, limit in (("tokens", budget.limit_tokens), ("usd", budget.limit_usd)):
        if limit is None:
            continue
        spent = sum((_amount(member, "spent", name) for member in (own, *others)), Decimal(0))
        total = spent + sum((_amount(member, "reserved", name) for member in (own, *reserving)), Decimal(0))
        if total > Decimal(limit) and not (budget.single_may_exceed and not reserving and spent < Decimal(limit)):
            raise BudgetExceeded(budget.root, name, str(total), str(limit), str(spent))
    return sorted((own, *others), key=lambda member: member.session)


def _amount(member: BudgetMember, kind: str, unit: str) -> Decimal:
    return Decimal(getattr(member, f"{kind}_{unit}"))
