"""The stores of the tests of agents; the tests with a server need `temporalio` (`make temporal`)."""

from __future__ import annotations

import importlib.util

from agent.conftest import stores

__all__ = ["stores"]

collect_ignore = (
    [] if importlib.util.find_spec("temporalio") else ["test_server.py", "test_dbos.py", "test_deployment.py"]
)
