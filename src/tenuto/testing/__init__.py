"""Helpers for tests of programs that use tenuto, without network and keys.

A script for the simulator has turns, and a turn has steps: `turn(think("hm"), call("weather", {"city": "Oslo"}))`. The
package has a pytest plugin with the fixture `tenuto_sim`. `StoreConformance` tests a custom store:
`tenuto.testing.store_suite` describes it. Public names are loaded on first use.
"""

from __future__ import annotations

from tenuto.lazy import import_lazily

TYPE_CHECKING = False  # as in `tenuto`: importing it costs more than the rest
if TYPE_CHECKING:
    from tenuto.sim.simulator import Simulator as Simulator
    from tenuto.testing.provider_override import override as override
    from tenuto.testing.scripts import *  # noqa: F403 - the steps of scripts, by their `__all__`
    from tenuto.testing.store_suite import StoreConformance as StoreConformance
    from tenuto.testing.transport import ScriptedResponse as ScriptedResponse
    from tenuto.testing.transport import ScriptedTransport as ScriptedTransport

__all__, __getattr__, __dir__ = import_lazily(
    __name__,
    {
        "tenuto.sim.simulator": "Simulator",
        "tenuto.testing.provider_override": "override",
        "tenuto.testing.scripts": "call compact cut deny drip fail image pause refuse run_code say search stall stop think turn",
        "tenuto.testing.store_suite": "StoreConformance",
        "tenuto.testing.transport": "ScriptedResponse ScriptedTransport",
    },
)
