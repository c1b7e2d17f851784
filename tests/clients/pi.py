"""pi, in each of its four dialects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clients.agents import AgentClient, Session

Json = Any
_WINDOW = 200_000
_SMALL_WINDOW = 17_000
"""pi compacts when fewer than 16,384 tokens of the window are free."""


class Pi(AgentClient):
    """`pi --print`."""

    package = "@earendil-works/pi-coding-agent"
    pinned = "0.74.2"
    program = "pi"

    def __init__(self, api: str, model: str, path: str = "") -> None:
        super().__init__(api, model)
        self._api = api
        self._path = path

    def configure(self, home: Path, url: str) -> dict[str, str]:
        directory = home / ".pi" / "agent"
        directory.mkdir(parents=True, exist_ok=True)
        self._write_model(home, url, _WINDOW)
        (directory / "settings.json").write_text(json.dumps({"compaction": {"keepRecentTokens": 1}}))
        return {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"}

    def _write_model(self, home: Path, url: str, window: int) -> None:
        model = {"id": self.model, "reasoning": True, "contextWindow": window, "maxTokens": 8_000}
        provider = {"baseUrl": url + self._path, "api": self._api, "apiKey": "none", "models": [model]}
        (home / ".pi/agent/models.json").write_text(json.dumps({"providers": {"simulator": provider}}))

    def arguments(self, prompt: str, *, resume: bool) -> list[str]:
        options = ["--offline", "--provider", "simulator", "--model", self.model, "--thinking", "medium"]
        return ["--print", *options, *(["--continue"] if resume else []), prompt]

    def read_answer(self, stdout: str) -> str:
        return stdout.strip()

    def shell_calls(self, *commands: str) -> list[Json]:
        return [{"do": "call", "name": "bash", "args": {"command": command}} for command in commands]

    @property
    def summary_prompt(self) -> str:
        return "<conversation>"

    def compact(self, session: Session) -> None:
        """Make the context window so small that the next process compacts by itself."""
        self._write_model(session.home, session.simulation.url, _SMALL_WINDOW)


CLIENTS = (
    Pi("anthropic-messages", "claude-opus-4-5"),
    Pi("openai-responses", "gpt-5.2", "/v1"),
    Pi("openai-completions", "deepseek-v4-pro", "/v1"),
    Pi("google-generative-ai", "gemini-3-pro-preview", "/v1beta"),
)
