"""What every test shares: one profile for Hypothesis, the same cases on every run and no folder of its own."""

from __future__ import annotations

import logging

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


@pytest.fixture(autouse=True)
def _quiet_log():
    """`TENUTO_DEBUG` turns the log on for the whole process; the next test is not to hear of it."""
    log = logging.getLogger("tenuto")
    level, handlers = log.level, list(log.handlers)
    yield
    log.setLevel(level)
    log.handlers[:] = handlers
