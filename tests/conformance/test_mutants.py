"""The runner finds the faults that it must find."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.faults import MUTANTS
from conformance.judge import CHECKS, judge
from conformance.mutants import Mutant
from conformance.report import Report
from conformance.run import conversations

OWN = Path(__file__).parent / "own"


def failures(dialect: str) -> set[tuple[str, str]]:
    """Run our own cases of one dialect; return the cases and checks that failed."""
    groups = [folders for folders in conversations(OWN) if folders[0].parts[-3] == dialect]
    report = Report([case for folders in groups for case in judge(folders)])
    return {(name, check) for name, check, _ in report.faults}


@pytest.fixture(scope="module")
def unmutated() -> dict[str, set[tuple[str, str]]]:
    return {dialect: failures(dialect) for dialect in {mutant.dialect for mutant in MUTANTS}}


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_codec_fault_is_found_by_its_check(
    mutant: Mutant, unmutated: dict[str, set[tuple[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check that no fault can fail has no value."""
    mutant.patch(monkeypatch, mutant.dialect)
    caught = failures(mutant.dialect) - unmutated[mutant.dialect]

    assert mutant.caught_by in {check for _, check in caught}


def test_every_dialect_and_check_has_enough_faults() -> None:
    """Each dialect and each check has faults of its own."""
    assert len(MUTANTS) >= 30
    assert min(sum(m.dialect == d for m in MUTANTS) for d in {m.dialect for m in MUTANTS}) >= 5
    assert set(CHECKS) - {"audited"} == {m.caught_by for m in MUTANTS}  # it checks no codec
    assert len({str(mutant) for mutant in MUTANTS}) == len(MUTANTS)
