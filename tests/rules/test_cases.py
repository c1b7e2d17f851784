"""Bodies that providers refuse, their repaired twins and near misses, judged by the audit and by the simulator."""

from __future__ import annotations

import json

import pytest

from rules.runner import DIRECTORIES, ROOT, Case, audit_problems, cases, sim_problems
from tenuto.rules import all_rules

CASES = cases()
IDS = [case.name for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_audit_predicts_the_refusal(case: Case):
    assert audit_problems(case) == []


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_simulator_refuses(case: Case):
    assert sim_problems(case) == []


def test_every_refusing_rule_has_a_case_and_a_near_miss():
    refusing = {rule.id for rule in all_rules().values() if rule.severity == "refused" and rule.check is not None}
    refusing -= {rule.id for rule in all_rules().values() if rule.dialect == "cross"}

    assert refusing - {case.rule for case in CASES} == set()
    assert refusing - {case.rule for case in CASES if case.near_misses} == set()


def test_rules_without_check_have_a_reason():
    unchecked = {rule.id: rule.unchecked for rule in all_rules().values() if rule.check is None}
    print(*(f"{id}: {reason}" for id, reason in unchecked.items()), sep="\n")

    assert all(unchecked.values())


def test_case_files_have_one_form():
    for path in sorted(ROOT.glob("*/*.json")):
        text = path.read_text("utf-8")
        assert text == json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n", path
        assert path.parent.name in DIRECTORIES
