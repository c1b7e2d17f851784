"""The tests of the application in examples/support_desk run without a network and without keys."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tenuto.catalog import PROVIDERS

ROOT = Path(__file__).parent.parent
NO_NETWORK = """
import os, sys

def refuse(event, args):
    if event == "socket.getaddrinfo" and args[0] not in (None, "localhost", "127.0.0.1"):
        raise RuntimeError(f"NETWORK: {args[0]}")
    if event == "socket.connect" and isinstance(args[1], tuple) and args[1][0] != "127.0.0.1":
        raise RuntimeError(f"NETWORK: {args[1]}")

sys.addaudithook(refuse)
"""
"""A pytest plugin: no socket of the process connects to another machine."""
REACHES_OUT = """
from examples.support_desk import app

def test_with_the_fixture(tenuto_sim):
    app.describe_photo("https://photos.example/broken.png")

def test_without_the_fixture():
    app.answer("ada", "Hi")
"""


@pytest.fixture
def run_tests(tmp_path, monkeypatch):
    """Run pytest in a process without keys and without a network; return its output."""
    for row in PROVIDERS.values():
        for name in (*row.key_env, *row.bearer_env, *row.base_url_env):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    for name in [name for name in os.environ if name.startswith(("TENUTO_", "PYTEST_XDIST"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TENUTO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), str(ROOT))))
    (tmp_path / "no_network.py").write_text(NO_NETWORK)

    def run(*arguments, **environment):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no_network", "-p", "no:cacheprovider", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment}, check=False
        )
        assert not (tmp_path / "home").exists()
        return done.stdout + done.stderr

    return run


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "two workers"])
def test_support_desk_needs_no_network_and_no_keys(run_tests, workers):
    output = run_tests("examples/support_desk", *workers)

    assert re.search(r"\b11 passed\b", output), output
    assert not re.search(r"failed|error|NETWORK|without releasing", output), output


def test_support_desk_names_only_real_models():
    source = "".join(path.read_text("utf-8") for path in (ROOT / "examples" / "support_desk").rglob("*.py"))

    assert "sim/" not in source
    assert len(set(re.findall(r'"(anthropic|groq|google|openai)/', source))) == 4


def test_test_that_reaches_out_fails_with_the_url(run_tests, tmp_path):
    (tmp_path / "test_reach.py").write_text(REACHES_OUT)
    output = run_tests(str(tmp_path / "test_reach.py"), TENUTO_OFFLINE="1", TENUTO_STORE="memory://reach")

    assert "2 failed" in output, output
    assert "NetworkForbidden: network access is forbidden: https://photos.example/broken.png" in output
    assert "NetworkForbidden: network access is forbidden: https://api.anthropic.com" in output
    assert "NETWORK" not in output
