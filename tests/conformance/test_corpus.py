"""All recorded traffic, where there is some."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conformance.report import Report
from conformance.run import conversations, run

CORPUS = Path(os.environ.get("TENUTO_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")


@pytest.mark.timeout(240)
@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no recorded traffic in {CORPUS}; set TENUTO_CORPUS to run it")
def test_every_recorded_exchange_passes_every_check() -> None:
    """Decoded, streamed, rechunked, stored, whole and replayed, over four dialects."""
    cases = [case for done in run(conversations(CORPUS), jobs=os.cpu_count() or 1) for case in done]
    report = Report(cases)

    assert "\n".join(report.lines()).splitlines()[-1] == f"{report.passed} passed, 0 failed"
