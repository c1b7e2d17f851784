"""The peers, and an environment of its own for each, under `.peers/`: made once, and again when what is in it changes.

This library is one of them: it is installed anew each time, as anybody would install it, and measured from there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".peers"
OURS = "tenuto"
TOOLS = ("pip", "setuptools", "wheel", "_distutils_hack", "pkg_resources")
"""What a new environment comes with, by itself."""


class Peer(NamedTuple):
    """What to install, what to load, and which dialects it is asked in."""

    installs: tuple[str, ...]
    loads: str
    dialects: tuple[str, ...] = ()
    kind: str = "std"
    normalises: bool = True
    once: tuple[str, ...] | None = None
    """The dialects in which it can be asked for a whole reply; all of them where nothing else is said."""

    @property
    def whole(self) -> tuple[str, ...]:
        return self.dialects if self.once is None else self.once


PEERS = {
    OURS: Peer((".",), "from tenuto import Client; Client()", ("anthropic", "chat", "responses", "gemini")),
    "anthropic": Peer(("anthropic",), "import anthropic", ("anthropic",), normalises=False),
    "openai": Peer(("openai",), "import openai", ("chat", "responses"), normalises=False),
    "google-genai": Peer(("google-genai",), "from google import genai", ("gemini",), normalises=False),
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
    "llm": Peer(("llm", "llm-anthropic"), "import llm", ("anthropic", "chat"), once=("chat",)),
    "langgraph": Peer(("langgraph", "langgraph-checkpoint-sqlite"), "import langgraph.graph"),
}
"""litellm's first call fails without mcp; llm's plugin for Anthropic streams even when it is asked not to."""


class Environment(NamedTuple):
    """Where a peer is, or why it is not: then `python` is `None`."""

    name: str
    python: Path | None
    reason: str = ""
    version: str = ""
    packages: int = 0
    megabytes: float = 0.0


def environment() -> dict[str, str]:
    """The variables that programs run with: nothing of Python's own, so that compiled files are kept, and no keys."""
    kept = {name: held for name, held in os.environ.items() if not name.startswith(("PYTHON", "TENUTO_"))}
    kept = {name: held for name, held in kept.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    return {**kept, "NO_PROXY": "127.0.0.1", "LLM_USER_PATH": str(FOLDER / "llm-user"), "DO_NOT_TRACK": "1"}


def made(names: list[str]) -> dict[str, Environment]:
    """Make what is not there, two at a time; a peer that cannot be installed is told with its reason."""
    FOLDER.mkdir(exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(_made, names), strict=True))


def _made(name: str) -> Environment:
    folder = FOLDER / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp, wanted = folder / ".installed", "\n".join(PEERS[name].installs)
    again = name == OURS
    if not again and stamp.exists() and stamp.read_text() == wanted:
        return _looked(name, python)
    print(f"{name}: installing {' '.join(PEERS[name].installs)}", flush=True)
    commands = [] if python.exists() else [[sys.executable, "-m", "venv", str(folder)]]
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if again and stamp.exists():  # its dependencies are there
        install += ["--force-reinstall", "--no-deps"]
    for command in [*commands, [*install, *PEERS[name].installs]]:
        try:
            run = subprocess.run(
                command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=600, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            return Environment(name, None, f"cannot be installed: {exc}"[:300])
        if run.returncode:
            said = [line for line in run.stderr.splitlines() if line.startswith("ERROR")] or [run.stderr[-200:]]
            return Environment(name, None, f"cannot be installed: {said[-1]}"[:300])
    stamp.write_text(wanted)
    return _looked(name, python)


def _looked(name: str, python: Path) -> Environment:
    """Count packages and bytes: those of files as they are installed, without compiled ones and without pip."""
    (site,) = (python.parents[1]).glob("lib/python*/site-packages")
    found = {path.name.split("-")[0].lower(): path.name.split("-")[1] for path in site.glob("*.dist-info")}
    packages = [package for package in found if package not in TOOLS]
    size = 0
    for path in site.rglob("*"):
        top = path.relative_to(site).parts[0].split("-")[0]
        if path.is_file() and top not in TOOLS and path.suffix != ".pyc":
            size += path.stat().st_size
    main = (OURS if name == OURS else PEERS[name].installs[0].split("[")[0]).replace("-", "_")
    version = found.get(main, "?").removesuffix(".dist")
    return Environment(name, python, "", version, len(packages), size / 1e6)
