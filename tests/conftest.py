"""Settings of all tests: one Hypothesis profile with the same examples in every run and no database."""

from __future__ import annotations

import logging
import sys

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "tests",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
settings.load_profile("tests")


# logs are often cut to their last lines, so they have only failures, as soon as they happen
if not sys.stdout.isatty():

    def pytest_report_teststatus(report):
        """Omit the dot of a passed test."""
        return ("passed", "", "PASSED") if report.passed and report.when == "call" else None

    def pytest_runtest_logreport(report):
        """Print a failure when it happens, not only at the end."""
        if report.failed and not hasattr(report, "_is_printed"):
            report._is_printed = True
            sys.__stdout__.write(f"\nFAILED {report.nodeid} ({report.when})\n{str(report.longrepr)[-3000:]}\n")
            sys.__stdout__.flush()


@pytest.fixture(autouse=True)
def _quiet_log():
    """Restore the logger: `TENUTO_DEBUG` turns logging on for the whole process."""
    log = logging.getLogger("tenuto")
    level, handlers = log.level, list(log.handlers)
    yield
    log.setLevel(level)
    log.handlers[:] = handlers
