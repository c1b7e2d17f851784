"""Real model names in tests: a simulator answers in place of the providers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from tenuto.client.routing import Override, overrides
from tenuto.sim.simulator import Simulator


@contextmanager
def override(simulator: Simulator, *, network: bool | Collection[str] = False) -> Iterator[Simulator]:
    """Let a running simulator answer every model name in this process, in place of the providers.

        with Simulator() as simulator, override(simulator):
            my_app.agent.session().send("Hi")       # whatever its model is

    Each request has the dialect, traits and prices of its own provider, and the simulator applies the rules of this
    provider. No key is needed: keys of the environment and key functions are not used. It applies to requests that start
    inside the block, in all threads, also of clients that exist already; the innermost block is in effect. A client with a
    simulator of its own, `providers={"sim": {"base_url": ...}}`, keeps it.

    `network` lists hosts that are reached as usual, such as `["localhost:8000"]`. Any other request of a client raises
    `NetworkForbidden` before a connection is opened, unless `network` is True.
    """
    active = Override(simulator.base_url, [network] if isinstance(network, str) else network)
    overrides.append(active)
    try:
        yield simulator
    finally:
        overrides.remove(active)
