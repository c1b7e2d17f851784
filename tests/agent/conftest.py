"""The stores of agent tests."""

from __future__ import annotations

import socketserver
import threading

import pytest

from tenuto import Provider
from tenuto.store.memory import Memory, MemoryStore
from tenuto.store.sql_store import SqlStore
from tenuto.store.sqlite import SqliteEngine
from tenuto.testing import override


@pytest.fixture(params=["memory", "sqlite"])
def stores(request, tmp_path):
    """Return a function that opens stores on one database, as different processes do."""
    if request.param == "memory":
        memory = Memory()
        return lambda: MemoryStore(memory)
    return lambda: SqlStore(SqliteEngine(tmp_path / "sessions.db"))


@pytest.fixture
def dead(tenuto_sim):
    """A provider at a host that is not simulated, and closes each connection."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        address = f"127.0.0.1:{server.server_address[1]}"
        with override(tenuto_sim, network=[address]):
            yield Provider("dead", "openai-chat", f"http://{address}/v1", auth="none")
        server.shutdown()
