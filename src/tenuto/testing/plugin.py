"""The plugin for pytest: the fixture `tenuto_sim`. It is loaded with every run of pytest, so it loads nothing by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tenuto.sim.simulator import Simulator

__all__ = ["tenuto_sim"]


@pytest.fixture
def tenuto_sim(monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulator]:
    """A simulator for one test. Every client that asks `sim/...` asks this one, whatever address it was given; and every
    agent that was not told otherwise keeps its sessions in a memory that ends with the test.

    `script(...)` says what the model does, `requests` what was asked, `exercised` which rules were put to the test;
    `assert_clean()` fails if one was broken.
    """
    from tenuto.sim.simulator import Simulator
    from tenuto.store.memory import forget_memory

    with Simulator() as simulator:
        place = f"test-{id(simulator)}"
        monkeypatch.setenv("TENUTO_SIM_URL", simulator.base_url)
        monkeypatch.setenv("TENUTO_STORE", f"memory://{place}")
        yield simulator
        forget_memory(place)
