"""All recorded traffic, if there is any."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conformance.audit_checks import refusals
from conformance.corpus import recorded
from conformance.report import Report
from conformance.run import conversations, run

CORPUS = Path(os.environ.get("TENUTO_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")
CORPORA = [path for path in (CORPUS, CORPUS.with_name("corpus-more")) if path.is_dir()]
pytestmark = pytest.mark.skipif(
    not CORPUS.is_dir(), reason=f"no recorded traffic in {CORPUS}; set TENUTO_CORPUS to run it"
)


@pytest.mark.timeout(600)
def test_recorded_exchanges_pass_every_check() -> None:
    """Decoded, streamed, rechunked, stored, whole and replayed; the audit refuses no accepted request."""
    cases = [case for done in run(conversations(*CORPORA), jobs=os.cpu_count() or 1) for case in done]
    report = Report(cases, full=len(CORPORA) > 1)

    assert report.faults == []
    assert sum(case.follows and "audited" in case.judged for case in cases) > 400 * len(CORPORA)
    replays = [case.judged["replayed"] for case in cases if "replayed" in case.judged]
    assert sum(not judged.excluded for judged in replays) > (480 if len(CORPORA) == 1 else 1150)


def test_recorded_refusals_are_predicted_or_unrelated() -> None:
    """The audit predicts each refusal whose reason is the request itself, with the recorded text."""
    found = [one for corpus in CORPORA for one in refusals(recorded(corpus))]

    assert len(found) > 30
    assert [] == [f"{one.name}: {one.text}" for one in found if not one.rules and not one.about]
    assert sum(bool(one.rules) for one in found) >= (8 if len(CORPORA) == 1 else 30)
