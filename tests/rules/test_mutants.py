"""A rule that is removed, or holds for other targets, or is more certain than its source, fails one of its cases."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from rules.runner import Case, audit_problems, cases, sim_problems
from tenuto.rules import Rule, Violation, all_rules, book
from tenuto.rules.book import Condition


def mutants() -> Iterator[tuple[str, Rule, Rule | None]]:
    """Yield name, rule and mutant; None: the rule is removed."""
    replace = msgspec.structs.replace
    for rule in all_rules().values():
        if rule.check is None or rule.severity != "refused" or rule.dialect == "cross":
            continue
        yield f"{rule.id} removed", rule, None
        yield f"{rule.id} always broken", rule, replace(rule, check=lambda request: [Violation("/")])
        for applies in rule.applies:
            others = tuple(other for other in rule.applies if other is not applies)
            inverted = replace(rule, applies=(*others, lambda request, applies=applies: not applies(request)))
            yield f"{rule.id} for the other targets", rule, inverted
        if not rule.certain:
            yield f"{rule.id} certain", rule, replace(rule, certain=True)
        elif rule.refused_by:
            yield f"{rule.id} certain for all targets", rule, replace(rule, refused_by=())
        if isinstance(rule.check, Condition):
            inverted = rule.check._replace(when=lambda item, when=rule.check.when: not when(item))
            yield f"{rule.id} under the opposite condition", rule, replace(rule, check=inverted)
            if rule.check.certain is not Condition._field_defaults["certain"]:
                always = rule.check._replace(certain=lambda item: True)
                yield f"{rule.id} certain in every place", rule, replace(rule, check=always)
        elif rule.certain and "certain=" in inspect.getsource(rule.check):
            yield f"{rule.id} certain in every place", rule, replace(rule, check=_certain(rule))


def _certain(rule: Rule) -> Any:
    def check(request: Any) -> Iterator[Violation]:
        assert rule.check is not None
        return (msgspec.structs.replace(violation, certain=True) for violation in rule.check(request))

    return check


def is_noticed(case: Case) -> bool:
    """Tell whether a case fails. A rule that raises for a target that it was not written for is noticed, too."""
    try:
        return bool(audit_problems(case) or sim_problems(case))
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError):
        return True


def test_every_mutant_fails_a_case(monkeypatch: pytest.MonkeyPatch):
    by_rule: dict[str, list[Case]] = defaultdict(list)
    for case in cases():
        by_rule[case.rule].append(case)
    original = book.rules_of
    alive = []
    every = list(mutants())
    for name, rule, mutant in every:
        changed = tuple(
            entry
            for entry in ((mutant if entry.id == rule.id else entry) for entry in original(rule.dialect))
            if entry is not None
        )
        monkeypatch.setattr(
            book,
            "rules_of",
            lambda dialect, own=rule.dialect, rules=changed: rules if dialect == own else original(dialect),
        )
        if not any(map(is_noticed, by_rule[rule.id])):
            alive.append(name)
    print(f"mutants caught: {len(every) - len(alive)}/{len(every)}")

    assert alive == []
