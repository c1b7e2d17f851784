"""A provider on your machine that has the four dialects and applies the rules of the real providers.

`python -m tenuto.sim` runs it as a server; `with Simulator() as sim` runs it in your process.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `tenuto`: importing it costs more than the rest
if TYPE_CHECKING:
    from tenuto.sim.simulator import Simulator as Simulator

__all__ = ["Simulator"]


def __getattr__(name: str) -> object:
    """Load the simulator on first use: a script needs no server."""
    if name != "Simulator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tenuto.sim.simulator import Simulator

    globals()[name] = Simulator
    return Simulator
