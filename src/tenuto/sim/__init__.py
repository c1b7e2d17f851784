"""A provider on your own machine that speaks the four dialects and enforces the real providers' replay rules.

`python -m tenuto.sim` runs it by itself; `with Simulator() as sim` runs it inside your own program.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `tenuto`: importing it costs more than the rest
if TYPE_CHECKING:
    from tenuto.sim.simulator import Simulator as Simulator

__all__ = ["Simulator"]


def __getattr__(name: str) -> object:
    """Load the simulator when it is first used: who only writes a script needs no server."""
    if name != "Simulator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tenuto.sim.simulator import Simulator

    globals()[name] = Simulator
    return Simulator
