"""All recorded traffic, where there is some."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conformance.audited import refusals
from conformance.report import Report
from conformance.run import conversations, run

CORPUS = Path(os.environ.get("TENUTO_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")
pytestmark = pytest.mark.skipif(
    not CORPUS.is_dir(), reason=f"no recorded traffic in {CORPUS}; set TENUTO_CORPUS to run it"
)


@pytest.mark.timeout(240)
def test_every_recorded_exchange_passes_every_check() -> None:
    """Decoded, streamed, rechunked, stored, whole, replayed and audited, over four dialects."""
    cases = [case for done in run(conversations(CORPUS), jobs=os.cpu_count() or 1) for case in done]
    report = Report(cases)

    assert "\n".join(report.lines()).splitlines()[-1] == f"{report.passed} passed, 0 failed"
    assert sum(case.follows and "audited" in case.judged for case in cases) > 400


def test_every_recorded_refusal_is_predicted_or_not_about_the_request() -> None:
    """What the provider found wrong with the request itself, the audit says before."""
    found = list(refusals(CORPUS))

    assert len(found) > 30
    assert [] == [f"{one.name}: {one.said}" for one in found if not one.rules and not one.about]
    assert sum(bool(one.rules) for one in found) >= 8
