"""The compose file is parsed, not started: it sets the variables that the worker reads."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import yaml

FILE = Path(__file__).parents[2] / "examples/temporal/compose.yaml"


def test_compose_file_sets_the_worker_variables():
    services = yaml.safe_load(FILE.read_text())["services"]
    assert set(services) == {"postgres", "temporal", "worker"}
    worker = services["worker"]
    program = inspect.getsource(importlib.import_module(worker["command"][2]))
    own = {name for name in worker["environment"] if not name.endswith("_KEY") and name != "TENUTO_STORE"}
    assert own == {name for name in ("TEMPORAL", "MODEL") if f'"{name}"' in program}
    for service in services.values():
        for name in service.get("depends_on", ()):
            assert name in services
    shutdown = inspect.signature(importlib.import_module("tenuto.temporal").worker).parameters["shutdown"].default
    assert float(worker["stop_grace_period"].removesuffix("s")) > shutdown
