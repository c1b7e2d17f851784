"""Count and print the results: a table by dialect and provider, the exclusions with their rules, and the failures."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Sequence

from conformance.audit_checks import refusals
from conformance.checks import Judged
from conformance.corpus import DIALECTS, READERS, Exchange
from conformance.judge import CHECKS, Case
from conformance.named_types import NAMED
from conformance.replay import NOTHING_HELD
from conformance.subject import response_only

__all__ = ["EXCLUDED_LIMIT", "HELD_LIMIT", "Report"]

EXCLUDED_LIMIT = 0.02
"""The largest share of exchanges that may be excluded or judged against the oracle."""
HELD_LIMIT = 0.5
"""The smallest share of replays that must send back a part of an earlier reply."""

Fault = tuple[str, str, list[str]]


class Report:
    """The results of all cases.

    `others` are the exchanges that no check applies to. In a `full` run each exclusion rule must match several sources.
    """

    def __init__(self, cases: list[Case], others: Sequence[Exchange] = (), *, full: bool = False) -> None:
        self.cases = sorted(cases, key=lambda case: (DIALECTS.index(case.dialect), case.name, case.corpus))
        self.others = others
        self.refusals = list(refusals(others))
        self.full = full
        self._several = len({case.corpus for case in cases}) > 1

    @property
    def passed(self) -> int:
        """The number of passed checks, audits included."""
        return sum(judged.passed for case in self.cases for judged in case.judged.values())

    @property
    def faults(self) -> list[Fault]:
        """Every failed check: case, check, error; and each refusal that is neither predicted nor explained."""
        failed = [
            (self._label(case), check, judged.faults)
            for case in self.cases
            for check, judged in case.judged.items()
            if judged.faults
        ]
        unexplained = [
            (one.name, "refused", [f"not predicted: {one.status} {one.text}"])
            for one in self.refusals
            if not one.rules and not one.about
        ]
        return [*failed, *unexplained, *self._named_opaque(), *self._limits()]

    @property
    def excluded_share(self) -> float:
        """The share of exchanges that a rule excludes from a check, or that the bytes judge against the oracle."""
        return _share(self.cases)

    def _label(self, case: Case) -> str:
        return f"{case.corpus}/{case.name}" if self._several else case.name

    def _replays(self) -> list[Case]:
        return [case for case in self.cases if "replayed" in case.judged]

    def _named_opaque(self) -> Iterator[Fault]:
        for case in self.cases:
            if known := sorted(set(case.opaque) & NAMED[case.dialect]):
                named = f"types that the protocol names came back opaque: {', '.join(known)}"
                yield self._label(case), "opaque", [named]

    def _limits(self) -> Iterator[Fault]:
        if self.excluded_share > EXCLUDED_LIMIT:
            text = f"{self.excluded_share:.1%} of the exchanges are excluded or at odds, more than {EXCLUDED_LIMIT:.0%}"
            yield "all", "excluded", [text]
        replays = self._replays()
        compared = [case for case in replays if case.judged["replayed"].excluded != NOTHING_HELD]
        if len(compared) < HELD_LIMIT * len(replays):
            text = f"{len(compared)} of {len(replays)} replays send back a part of a reply, fewer than {HELD_LIMIT:.0%}"
            yield "all", "nothing held", [text]
        for (check, rule), cases in self._rules().items() if self.full else ():
            if len({case.source for case in cases}) < 2:
                text = f"the exclusion rule of {check} matches only {_sources(cases)}: {rule}"
                yield "all", "excluded", [text]

    def _rules(self) -> dict[tuple[str, str], list[Case]]:
        """Return the excluded cases by check and rule; a replay that sends back nothing is counted by itself."""
        found: dict[tuple[str, str], list[Case]] = collections.defaultdict(list)
        for case in self.cases:
            for check, judged in case.judged.items():
                if judged.excluded not in ("", NOTHING_HELD):
                    found[check, judged.excluded].append(case)
        return found

    # --- printing -----------------------------------------------------------------------------------------------------

    def lines(self, most: int = 40) -> Iterator[str]:
        """Yield the report, line by line, with at most `most` failures."""
        yield from self._table()
        yield from self._not_judged()
        yield from self._exclusions()
        yield from self._nothing_held()
        yield from self._oracles()
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
            yield f"{dialect:<20}{provider:<18}" + "".join(f"{_passed(cases, check):>12}" for check in CHECKS)

    def _not_judged(self) -> Iterator[str]:
        counted = collections.Counter((other.dialect, str(other.about.get("status"))) for other in self.others)
        yield ""
        yield f"Not judged ({len(self.others)} exchanges of other formats or with another status than 200):"
        for (dialect, status), count in sorted(counted.items()):
            yield f"  {count:>5}  {dialect:<20} {status}"

    def _exclusions(self) -> Iterator[str]:
        yield ""
        yield f"Excluded by rule, or judged by the bytes against the oracle: {self.excluded_share:.1%} of the exchanges."
        corpora = sorted({case.corpus for case in self.cases})
        for corpus in corpora if self._several else ():
            yield f"  {_share([case for case in self.cases if case.corpus == corpus]):.1%} in {corpus}"
        for (check, rule), cases in sorted(self._rules().items()):
            yield f"  {len(cases):>5}  {check:<10} {rule} [{_sources(cases)}]"
        yield "Replays request readable reasoning on every turn; which turns a provider gets it on is tested elsewhere."

    def _nothing_held(self) -> Iterator[str]:
        replays = self._replays()
        nothing = [case for case in replays if case.judged["replayed"].excluded == NOTHING_HELD]
        yield ""
        yield f"Replays: {len(replays)}; {len(nothing)} with {NOTHING_HELD}. By source:"
        for source in sorted({case.source for case in nothing}):
            count, total = (sum(case.source == source for case in cases) for cases in (nothing, replays))
            yield f"  {count:>5} of {total:<5} {source}"

    def _oracles(self) -> Iterator[str]:
        differ = [case for case in self.cases if case.oracles_differ]
        yield ""
        yield f"The two oracles differ (own_agrees is false): {len(differ)}, judged like every other case."
        yield from (f"         {self._label(case)}" for case in differ)
        odd = [(case, j.contradicted) for case in self.cases for j in case.judged.values() if j.contradicted]
        yield f"The oracle differs from the bytes: {len(odd)}, judged by the bytes."
        yield from (f"         {self._label(case)}: {text}" for case, text in odd)

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
            ("Response-only fields (stored, never sent back):", {d: response_only(d) for d in DIALECTS}),
            ("Fields of a stream's frames that are not part of the reply:", {d: READERS[d].FRAMING for d in DIALECTS}),
        ):
            yield ""
            yield title
            for dialect, table in tables.items():
                yield from (f"  {dialect:<20}{field}: {reason}" for field, reason in table.items())
                if not table:
                    yield f"  {dialect:<20}none"

    def _audits(self) -> Iterator[str]:
        accepted = [case for case in self.cases if "audited" in case.judged and not case.judged["audited"].excluded]
        back = [case for case in accepted if case.follows]
        clean = [case for case in back if case.judged["audited"].passed]
        yield ""
        yield f"Audited: {len(accepted)} accepted requests; {len(clean)} of {len(back)} that send replies back are clean."
        alarms = sum(len(case.judged["audited"].faults) for case in accepted)
        yield f"False alarms of the audit: {alarms}"
        if self.refusals:
            yield from self._refusals()

    def _refusals(self) -> Iterator[str]:
        predicted = [one for one in self.refusals if one.rules]
        other = [one for one in self.refusals if one.about]
        rest = len(self.refusals) - len(predicted) - len(other)
        yield (
            f"Recorded refusals: {len(self.refusals)}; predicted {len(predicted)}, not about the request {len(other)}, "
            f"about the request and not predicted {rest}:"
        )
        for one in self.refusals:
            what = ", ".join(one.rules) if one.rules else f"({one.about})" if one.about else "NOT PREDICTED"
            yield f"  {one.status} {what:<34} {one.text}  [{one.name}]"

    def _failures(self, most: int) -> Iterator[str]:
        faults = self.faults
        yield ""
        for name, check, found in faults[:most]:
            yield f"FAILED {check} {name}"
            yield from (f"       {fault}" for fault in found[:4])
        if len(faults) > most:
            yield f"... and {len(faults) - most} more (--all prints them)"


def _passed(cases: list[Case], check: str) -> str:
    judged = [case.judged[check] for case in cases if check in case.judged and not case.judged[check].excluded]
    return f"{sum(j.passed for j in judged)}/{len(judged)}" if judged else "-"


def _share(cases: list[Case]) -> float:
    return sum(any(_left_out(j) for j in case.judged.values()) for case in cases) / max(len(cases), 1)


def _left_out(judged: Judged) -> bool:
    return bool(judged.contradicted) or judged.excluded not in ("", NOTHING_HELD)


def _sources(cases: Iterable[Case]) -> str:
    counted = collections.Counter(case.source for case in cases)
    return ", ".join(f"{source} {count}" for source, count in sorted(counted.items()))
