"""What providers refuse, and what they take and spoil: the rule book, with texts, sources and confidence.

Data only. Whoever judges a request (the simulator) and whoever warns of one (the audit) reads the same rows, and each
has its own eyes: no test of a condition stands here, so that neither can merely confirm the other's mistake.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

import msgspec

from tenuto.core.rule_rows import HOLDS, TABLES

__all__ = ["Rule", "rule", "rules"]

_PARTS = 12
_FIELD = re.compile(r"\{(\w+)\}")


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule.

    `scope` says for whom it holds and `when` what breaks it. `status`, `type`, `param` and `code` are the parts of the
    refusal; status 0 means that nothing is refused. `says` are the provider's texts, one for each variant, with names in
    braces; `trust` says how far the wording is known (`verbatim`, `partial`, `unverified`, `none`). `place` is a JSON
    pointer with names in braces. `needs` tells what a judge must know: the `body`, what was emitted before (`ledger`),
    or the `account`. `holds` are patterns of `row/model` for whom it holds; none means everybody in the dialect.
    """

    id: str
    tier: Literal["core", "next", "later"]
    dialect: str
    scope: str
    needs: Literal["body", "ledger", "account"]
    when: str
    status: int = 0
    type: str = ""
    param: str | None = None
    code: str | None = None
    says: tuple[str, ...] = ("",)
    trust: Literal["verbatim", "partial", "unverified", "none"] = "none"
    place: str = ""
    severity: Literal["refused", "lost", "warned"] = "refused"
    remedy: str = ""
    confidence: str = ""
    as_of: str = ""
    source: str = ""
    holds: tuple[str, ...] = ()

    def text(self, variant: int = 0, **fields: object) -> str:
        """Return what the provider says, with the names filled in; a name that is not given stays in its braces."""
        return _filled(self.says[variant], fields)

    def pointer(self, **fields: object) -> str:
        """Return where it happens, with the names filled in."""
        return _filled(self.place, fields)

    def parameter(self, **fields: object) -> str | None:
        """Return the `param` of the refusal, with the names filled in."""
        return None if self.param is None else _filled(self.param, fields)


def _filled(text: str, fields: dict[str, object]) -> str:
    return _FIELD.sub(lambda found: str(fields.get(found[1], found[0])), text)


def rule(id: str) -> Rule:
    """Return a rule by its id; `KeyError` if there is none."""
    return rules()[id]


@cache
def rules() -> dict[str, Rule]:
    """Return every rule by its id, in the order of the book."""
    holds = dict(_held(line) for table in HOLDS for line in table.splitlines() if line)
    found = {row.id: row for dialect, table in TABLES for row in _read(dialect, table, holds)}
    assert holds.keys() <= found.keys(), holds.keys() - found.keys()
    return found


def _held(line: str) -> tuple[str, tuple[str, ...]]:
    id, _, patterns = line.partition(" || ")
    return id, tuple(patterns.split())


def _read(dialect: str, table: str, holds: dict[str, tuple[str, ...]]) -> list[Rule]:
    return [_rule(dialect, line, holds) for line in table.splitlines() if line]


def _rule(dialect: str, line: str, holds: dict[str, tuple[str, ...]]) -> Rule:
    id, tier, scope, needs, when, refusal, says, trust, place, severity, remedy, basis = line.split(" || ", _PARTS - 1)
    confidence, as_of, source = basis.split(", ", 2)
    status, *words = refusal.removeprefix("-").split() or ["0"]
    named = dict(word.split("=", 1) for word in words if "=" in word)
    value = {
        "id": id, "tier": tier, "dialect": dialect, "scope": scope, "needs": needs, "when": when,
        "status": int(status), "type": next((word for word in words if "=" not in word), ""),
        "param": named.get("param"), "code": named.get("code"),
        "says": tuple(says.removeprefix("-").split(" ¦ ")), "trust": trust, "place": place.removeprefix("-"),
        "severity": severity, "remedy": remedy, "confidence": confidence, "as_of": as_of, "source": source,
        "holds": holds.get(id, ()),
    }  # fmt: skip
    return msgspec.convert(value, Rule)
