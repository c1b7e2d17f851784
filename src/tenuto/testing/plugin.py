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
    """A simulator for one test. It answers every model name, real ones with the rules of their provider, without a key.

    Other network access of a client raises `NetworkForbidden`. Agents with the default store keep their sessions in a
    memory that ends with the test. `script(...)` sets the replies, `requests` has the exchanges, `exercised` the rules that
    had something to check; `assert_clean()` fails if a request was refused.
    """
    from tenuto.sim.simulator import Simulator
    from tenuto.store.memory import forget_memory
    from tenuto.testing.provider_override import override

    with Simulator() as simulator, override(simulator):
        place = f"test-{id(simulator)}"
        monkeypatch.setenv("TENUTO_SIM_URL", simulator.base_url)
        monkeypatch.setenv("TENUTO_STORE", f"memory://{place}")
        yield simulator
        forget_memory(place)
