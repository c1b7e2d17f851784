"""Bodies that were refused, and their repaired twins: the audit names rule and place, and is silent on the twin.

Each file has the provider's own words and the source. The simulator judges the same bodies with its own eyes: where the
two differ, one of them is wrong.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from refusals.reading import FOLDERS, Case, audited, cases, judged
from tenuto.core.rules import rule, rules

CASES = cases()
IDS = [case.name for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_audit_names_the_rule_and_the_place(case: Case):
    found = [finding for finding in audited(case, case.body) if finding.severity == "refused"]

    assert (case.rule, case.pointer) in [(finding.rule, finding.pointer) for finding in found]
    assert {finding.rule for finding in found} <= {case.rule, *case.also}
    told = next(finding for finding in found if (finding.rule, finding.pointer) == (case.rule, case.pointer))
    assert told.remedy
    assert told.source == case.source


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_audit_is_silent_on_the_repaired_twin(case: Case):
    assert [] == [finding for finding in audited(case, case.repaired) if finding.severity == "refused"]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_simulator_says_the_same(case: Case):
    broken = judged(case, case.body)

    assert broken is not None
    assert broken.rule in (case.rule, *case.also)
    if broken.rule == case.rule:
        assert broken.place == case.pointer
        assert not case.says or broken.message == case.says
    assert judged(case, case.repaired) is None


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_case_is_what_the_book_says(case: Case):
    row = rule(case.rule)

    assert row.severity == "refused"
    assert case.source == row.source
    assert bool(case.says) == (row.trust == "verbatim")
    assert case.body != case.repaired
    assert case.name.startswith(case.rule)


def test_there_are_enough_of_them():
    """At least eighty documented refusals; every rule of the core is among them."""
    tried = {case.rule for case in CASES}
    core = {row.id for row in rules().values() if row.tier == "core" and row.severity == "refused"}

    assert len(tried) >= 80
    assert core <= tried | {row.id for row in rules().values() if row.dialect == "cross"}


def test_every_rule_is_looked_at_or_cannot_be_seen():
    """No rule is forgotten: it has a check, or a reason why no request shows it."""
    from importlib import import_module

    for folder, dialect in FOLDERS.items():
        eyes = import_module(f"tenuto.audit.{folder}")
        book = {row.id for row in rules().values() if row.dialect == dialect}

        assert not eyes.CHECKS.keys() & eyes.UNSEEN.keys()
        assert book == eyes.CHECKS.keys() | eyes.UNSEEN.keys()
        assert all(eyes.UNSEEN.values())


def test_files_are_plain():
    """One form for all of them, so that a change shows what changed."""
    counted: Counter[str] = Counter()
    for path in sorted(Path(__file__).parent.glob("*/*.json")):
        text = path.read_text("utf-8")
        counted[path.parent.name] += 1
        assert text == json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n", path
    assert counted.keys() == FOLDERS.keys()
