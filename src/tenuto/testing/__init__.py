"""For tests of programs that use tenuto: no network, no keys, no surprises.

A script for the simulator is made of turns, a turn of steps: `turn(think("hm"), call("weather", {"city": "Oslo"}))`. The
fixture `tenuto_sim` comes with the package, as a plugin for pytest. `StoreConformance` puts a store of your own to the test
(`tenuto.testing.stores` says how). The names below are loaded when they are first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `tenuto`: importing it costs more than the rest
if TYPE_CHECKING:
    from tenuto.sim.simulator import Simulator as Simulator
    from tenuto.testing.scripts import call as call
    from tenuto.testing.scripts import cut as cut
    from tenuto.testing.scripts import deny as deny
    from tenuto.testing.scripts import drip as drip
    from tenuto.testing.scripts import fail as fail
    from tenuto.testing.scripts import pause as pause
    from tenuto.testing.scripts import picture as picture
    from tenuto.testing.scripts import refuse as refuse
    from tenuto.testing.scripts import run_code as run_code
    from tenuto.testing.scripts import say as say
    from tenuto.testing.scripts import search as search
    from tenuto.testing.scripts import stall as stall
    from tenuto.testing.scripts import stop as stop
    from tenuto.testing.scripts import think as think
    from tenuto.testing.scripts import turn as turn
    from tenuto.testing.stores import StoreConformance as StoreConformance
    from tenuto.testing.transport import Answer as Answer
    from tenuto.testing.transport import ScriptedTransport as ScriptedTransport

_HOMES = {
    "tenuto.sim.simulator": ("Simulator",),
    "tenuto.testing.scripts": (
        *("call", "cut", "deny", "drip", "fail", "pause", "picture", "refuse", "run_code", "say", "search", "stall"),
        *("stop", "think", "turn"),
    ),
    "tenuto.testing.stores": ("StoreConformance",),
    "tenuto.testing.transport": ("Answer", "ScriptedTransport"),
}

__all__ = [
    "Answer",
    "ScriptedTransport",
    "Simulator",
    "StoreConformance",
    "call",
    "cut",
    "deny",
    "drip",
    "fail",
    "pause",
    "picture",
    "refuse",
    "run_code",
    "say",
    "search",
    "stall",
    "stop",
    "think",
    "turn",
]


def __getattr__(name: str) -> object:
    """Load a name from its home."""
    import importlib

    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return list(__all__)
