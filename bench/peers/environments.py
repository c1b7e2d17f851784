"""List the libraries and create an environment for each under `.peers/`, again if its requirements change.

tenuto is one of them: it is installed again for each run, like any package, and measured from there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DIRECTORY = ROOT / ".peers"
TENUTO = "tenuto"
TOOLS = ("pip", "setuptools", "wheel", "_distutils_hack", "pkg_resources")
"""Packages of every new environment."""


class Peer(NamedTuple):
    """A library to compare with."""

    installs: tuple[str, ...]
    """Arguments of `pip install`."""
    loads: str
    """The program whose CPU is the cost of loading."""
    dialects: tuple[str, ...] = ()
    kind: str = "std"
    normalizes: bool = True
    """Whether its events have the same form for each provider."""
    once_dialects: tuple[str, ...] | None = None
    """The dialects for requests without streaming; default: all."""

    @property
    def request_dialects(self) -> tuple[str, ...]:
        return self.dialects if self.once_dialects is None else self.once_dialects


PEERS = {
    TENUTO: Peer((".",), "from tenuto import Client; Client()", ("anthropic", "chat", "responses", "gemini")),
    "anthropic": Peer(("anthropic",), "import anthropic", ("anthropic",), normalizes=False),
    "openai": Peer(("openai",), "import openai", ("chat", "responses"), normalizes=False),
    "google-genai": Peer(("google-genai",), "from google import genai", ("gemini",), normalizes=False),
    "litellm": Peer(("litellm", "mcp"), "import litellm", ("anthropic", "chat", "responses")),
    "pydantic-ai": Peer(
        ("pydantic-ai-slim[anthropic,openai]",),
        "import pydantic_ai, pydantic_ai.models.anthropic",
        ("anthropic", "chat", "responses"),
    ),
    "langchain": Peer(
        ("langchain-anthropic", "langchain-openai"),
        "import langchain_anthropic",
        ("anthropic", "chat", "responses"),
    ),
    "any-llm": Peer(("any-llm-sdk[anthropic,openai]",), "import any_llm", ("anthropic", "chat")),
    "openai-agents": Peer(("openai-agents",), "import agents", ("responses",), kind="text"),
    "llm": Peer(("llm", "llm-anthropic"), "import llm", ("anthropic", "chat"), once_dialects=("chat",)),
    "langgraph": Peer(("langgraph", "langgraph-checkpoint-sqlite"), "import langgraph.graph"),
}
"""litellm's first call fails without mcp; llm's plugin for Anthropic always streams."""


class Environment(NamedTuple):
    """The environment of a library; `python` is None, with a `reason`, if the installation failed."""

    name: str
    python: Path | None
    reason: str = ""
    version: str = ""
    packages: int = 0
    megabytes: float = 0.0


def make_variables() -> dict[str, str]:
    """Return the environment variables of the programs: none of Python, which could prevent compiled files, and no keys."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TENUTO_"))}
    variables = {name: value for name, value in variables.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    return {**variables, "NO_PROXY": "127.0.0.1", "LLM_USER_PATH": str(DIRECTORY / "llm-user"), "DO_NOT_TRACK": "1"}


def make_environments(names: list[str], peers: dict[str, Peer] = PEERS) -> dict[str, Environment]:
    """Create the missing environments, two at a time."""
    DIRECTORY.mkdir(exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(lambda name: _make_environment(name, peers[name]), names), strict=True))


def _make_environment(name: str, peer: Peer) -> Environment:
    directory = DIRECTORY / name
    python = directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp, requirements = directory / ".installed", "\n".join(peer.installs)
    is_tenuto = name == TENUTO
    if not is_tenuto and stamp.exists() and stamp.read_text() == requirements:
        return _inspect(name, peer, python)
    print(f"{name}: installing {' '.join(peer.installs)}", flush=True)
    commands = [] if python.exists() else [[sys.executable, "-m", "venv", str(directory)]]
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if is_tenuto and stamp.exists():  # its dependencies are installed
        install += ["--force-reinstall", "--no-deps"]
    for command in [*commands, [*install, *peer.installs]]:
        try:
            process = subprocess.run(
                command, cwd=ROOT, env=make_variables(), capture_output=True, text=True, timeout=600, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            return Environment(name, None, f"cannot be installed: {exc}"[:300])
        if process.returncode:
            errors = [line for line in process.stderr.splitlines() if line.startswith("ERROR")] or [
                process.stderr[-200:]
            ]
            return Environment(name, None, f"cannot be installed: {errors[-1]}"[:300])
    stamp.write_text(requirements)
    return _inspect(name, peer, python)


def _inspect(name: str, peer: Peer, python: Path) -> Environment:
    """Count packages and bytes, without compiled files and without pip."""
    (site,) = (python.parents[1]).glob("lib/python*/site-packages")
    versions = {path.name.split("-")[0].lower(): path.name.split("-")[1] for path in site.glob("*.dist-info")}
    packages = [package for package in versions if package not in TOOLS]
    size = 0
    for path in site.rglob("*"):
        top = path.relative_to(site).parts[0].split("-")[0]
        if path.is_file() and top not in TOOLS and path.suffix != ".pyc":
            size += path.stat().st_size
    main = (TENUTO if name == TENUTO else peer.installs[0].split("[")[0]).replace("-", "_")
    version = versions.get(main, "?").removesuffix(".dist")
    return Environment(name, python, "", version, len(packages), size / 1e6)
