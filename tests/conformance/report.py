"""Count and print: a table by dialect and provider, what was left out and why, and the closing line."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence

from conformance.audited import Refusal
from conformance.checks import Judged
from conformance.corpus import DIALECTS, READERS
from conformance.judge import CHECKS, Case
from conformance.named_types import NAMED
from conformance.replay import NOTHING_HELD
from conformance.subject import response_only

__all__ = ["EXCLUDED_LIMIT", "NOTHING_LIMIT", "Report"]

EXCLUDED_LIMIT = 0.02
NOTHING_LIMIT = 0.05


class Report:
    """What came of all cases."""

    def __init__(self, cases: list[Case], refusals: Sequence[Refusal] = ()) -> None:
        self.refusals = refusals
        self.cases = sorted(cases, key=lambda case: (DIALECTS.index(case.dialect), case.name))

    @property
    def passed(self) -> int:
        """How many checks passed."""
        return sum(not j.faults and not j.excluded for case in self.cases for j in case.judged.values())

    @property
    def faults(self) -> list[tuple[str, str, list[str]]]:
        """Every failed check: the case, the check, what is wrong."""
        held = [(c.name, check, j.faults) for c in self.cases for check, j in c.judged.items() if j.faults]
        return [*held, *self._named_opaque(), *self._limits()]

    def _named_opaque(self) -> Iterator[tuple[str, str, list[str]]]:
        for case in self.cases:
            if known := sorted(set(case.opaque) & NAMED[case.dialect]):
                yield case.name, "opaque", [f"a type that the protocol names came back opaque: {', '.join(known)}"]

    def _limits(self) -> Iterator[tuple[str, str, list[str]]]:
        left_out, nothing = self._shares()
        if left_out > EXCLUDED_LIMIT:
            yield (
                "all",
                "excluded",
                [f"{left_out:.1%} of the exchanges are excluded or at odds, more than {EXCLUDED_LIMIT:.0%}"],
            )
        if nothing > NOTHING_LIMIT:
            yield "all", "nothing held", [f"{nothing:.1%} of the replays, more than {NOTHING_LIMIT:.0%}"]

    def _shares(self) -> tuple[float, float]:
        ruled = [c for c in self.cases if any(_left_out(j) for j in c.judged.values())]
        replays = [c.judged["replayed"] for c in self.cases if "replayed" in c.judged]
        nothing = [judged for judged in replays if judged.excluded == NOTHING_HELD]
        return len(ruled) / max(len(self.cases), 1), len(nothing) / max(len(replays), 1)

    # --- printing -----------------------------------------------------------------------------------------------------

    def lines(self, most: int = 40) -> Iterator[str]:
        """Yield the report, line by line; at most `most` failures are told in full."""
        yield from self._table()
        yield from self._exclusions()
        yield from self._contradictions()
        yield from self._opaque()
        yield from self._field_tables()
        yield from self._audits()
        yield from self._failures(most)
        yield f"{self.passed} passed, {len(self.faults)} failed"

    def _table(self) -> Iterator[str]:
        names = sorted({(DIALECTS.index(c.dialect), c.provider) for c in self.cases})
        rows = [
            (DIALECTS[at], name, [c for c in self.cases if (c.dialect, c.provider) == (DIALECTS[at], name)])
            for at, name in names
        ]
        for dialect in DIALECTS:
            if any(row[0] == dialect for row in rows):
                rows.append((dialect, "all", [c for c in self.cases if c.dialect == dialect]))
        yield f"{'dialect':<20}{'provider':<18}" + "".join(f"{check:>12}" for check in CHECKS)
        for dialect, provider, cases in sorted(rows, key=lambda row: (DIALECTS.index(row[0]), row[1] == "all")):
            yield f"{dialect:<20}{provider:<18}" + "".join(f"{_share(cases, check):>12}" for check in CHECKS)

    def _exclusions(self) -> Iterator[str]:
        counted = collections.Counter(
            (check, j.excluded) for c in self.cases for check, j in c.judged.items() if j.excluded
        )
        left_out, nothing = self._shares()
        yield ""
        yield f"Excluded ({left_out:.1%} of the exchanges, nothing held in {nothing:.1%} of the replays):"
        for (check, rule), count in sorted(counted.items()) or [(("", "nothing"), 0)]:
            yield f"  {count:>5}  {check:<10} {rule}"
        yield "Replays ask for readable reasoning on every turn: which turns a row sends it on is policy, tested elsewhere."

    def _contradictions(self) -> Iterator[str]:
        odd = collections.defaultdict(list)
        for case in self.cases:
            for judged in case.judged.values():
                if judged.contradicted:
                    odd[_rule(judged.contradicted)].append(f"{case.name}: {judged.contradicted}")
        yield ""
        yield "Oracle at odds with its own bytes (the bytes count):"
        for rule, named in sorted(odd.items()) or [("none", [])]:
            yield f"  {len(named):>5}  {rule}"
            yield from (f"         {one}" for one in named)

    def _opaque(self) -> Iterator[str]:
        yield ""
        yield "Opaque blocks:"
        for dialect in DIALECTS:
            cases = [case for case in self.cases if case.dialect == dialect]
            kinds = collections.Counter(kind for case in cases for kind in case.opaque)
            listed = f": {', '.join(f'{kind} ({n})' for kind, n in sorted(kinds.items()))}" if kinds else ""
            count, total = sum(kinds.values()), sum(case.blocks for case in cases)
            yield f"  {dialect:<20}{count} of {total} ({count / max(total, 1):.1%}){listed}"

    def _field_tables(self) -> Iterator[str]:
        for title, tables in (
            ("Response-only fields (kept and stored, never sent back):", {d: response_only(d) for d in DIALECTS}),
            ("Fields of a stream's frames, no part of the reply:", {d: READERS[d].FRAMING for d in DIALECTS}),
        ):
            yield ""
            yield title
            for dialect, table in tables.items():
                yield from (f"  {dialect:<20}{field}: {reason}" for field, reason in table.items())
                if not table:
                    yield f"  {dialect:<20}none"

    def _audits(self) -> Iterator[str]:
        taken = [case for case in self.cases if "audited" in case.judged and not case.judged["audited"].excluded]
        back = [case for case in taken if case.follows]
        clean = [case for case in back if not case.judged["audited"].faults]
        yield ""
        yield f"Audited: {len(taken)} requests that were taken; {len(clean)} of {len(back)} that send replies back are clean."
        if not self.refusals:
            return
        predicted = [one for one in self.refusals if one.rules]
        other = [one for one in self.refusals if one.about]
        rest = len(self.refusals) - len(predicted) - len(other)
        yield (
            f"Recorded refusals: {len(self.refusals)}; predicted {len(predicted)}, not about the request {len(other)}, "
            f"about the request and not predicted {rest}:"
        )
        for one in self.refusals:
            what = ", ".join(one.rules) if one.rules else f"({one.about})" if one.about else "NOT PREDICTED"
            yield f"  {one.status} {what:<34} {one.said}  [{one.name}]"

    def _failures(self, most: int) -> Iterator[str]:
        faults = self.faults
        yield ""
        for name, check, found in faults[:most]:
            yield f"FAILED {check} {name}"
            yield from (f"       {fault}" for fault in found[:4])
        if len(faults) > most:
            yield f"... and {len(faults) - most} more (--all tells them all)"


def _share(cases: list[Case], check: str) -> str:
    judged = [case.judged[check] for case in cases if check in case.judged and not case.judged[check].excluded]
    return f"{sum(not j.faults for j in judged)}/{len(judged)}" if judged else "-"


def _left_out(judged: Judged) -> bool:
    return bool(judged.contradicted) or judged.excluded not in ("", NOTHING_HELD)


def _rule(contradicted: str) -> str:
    if contradicted.endswith("sha1 differs"):
        return "its hash is not that of the block in the bytes (its SDK adds fields that are null)"
    return "it says what the bytes do not say, neither as finished nor in the terminal event"
