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
    from tenuto.testing.scripts import call as call
    from tenuto.testing.scripts import compact as compact
    from tenuto.testing.scripts import cut as cut
    from tenuto.testing.scripts import deny as deny
    from tenuto.testing.scripts import drip as drip
    from tenuto.testing.scripts import fail as fail
    from tenuto.testing.scripts import image as image
    from tenuto.testing.scripts import pause as pause
    from tenuto.testing.scripts import refuse as refuse
    from tenuto.testing.scripts import run_code as run_code
    from tenuto.testing.scripts import say as say
    from tenuto.testing.scripts import search as search
    from tenuto.testing.scripts import stall as stall
    from tenuto.testing.scripts import stop as stop
    from tenuto.testing.scripts import think as think
    from tenuto.testing.scripts import turn as turn
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
