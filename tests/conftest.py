"""What every test shares: one profile for Hypothesis, the same cases on every run and no folder of its own."""

from __future__ import annotations

import logging
import sys

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "house",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
settings.load_profile("house")


if not sys.stdout.isatty():  # a log keeps only so many lines: it is for what failed, and tells that at once

    def pytest_report_teststatus(report):
        """Leave out the dot of a test that passed."""
        return ("passed", "", "PASSED") if report.passed and report.when == "call" else None

    def pytest_runtest_logreport(report):
        """Name a test where it fails, not only at the end."""
        if report.failed and not hasattr(report, "_told"):
            report._told = True
            sys.__stdout__.write(f"\nFAILED {report.nodeid} ({report.when})\n{str(report.longrepr)[-3000:]}\n")
            sys.__stdout__.flush()


@pytest.fixture(autouse=True)
def _quiet_log():
    """`TENUTO_DEBUG` turns the log on for the whole process; the next test is not to hear of it."""
    log = logging.getLogger("tenuto")
    level, handlers = log.level, list(log.handlers)
    yield
    log.setLevel(level)
    log.handlers[:] = handlers
