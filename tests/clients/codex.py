"""Codex, with a custom provider and with the built-in one at another URL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clients.agents import AgentClient, Session
from clients.checks import ScenarioError

Json = Any
_CODE_MODELS = ("gpt-6.1-sol",)
"""Models that get one tool, which runs JavaScript with the other tools."""
_CONFIG = """\
model = "{model}"
check_for_update_on_startup = false
[analytics]
enabled = false
"""
_CUSTOM = """\
[model_providers.simulator]
name = "Simulator"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SIMULATOR_API_KEY"
"""


class Codex(AgentClient):
    """`codex exec`."""

    package = "@openai/codex"
    pinned = "0.166.0"
    program = "codex"

    def __init__(self, variant: str, model: str, *, custom: bool) -> None:
        super().__init__(variant, model)
        self._is_custom = custom

    def expected_refusals(self, scenario: str) -> frozenset[str]:
        """Expect the built-in provider to try a WebSocket first; after 426 it uses HTTP."""
        return frozenset() if self._is_custom else frozenset({"426"})

    def configure(self, home: Path, url: str) -> dict[str, str]:
        config = home / ".codex" / "config.toml"
        config.parent.mkdir(exist_ok=True)
        first = 'model_provider = "simulator"\n' if self._is_custom else f'openai_base_url = "{url}/v1"\n'
        last = _CUSTOM.format(url=url) if self._is_custom else ""
        config.write_text(first + _CONFIG.format(model=self.model) + last)
        return {"SIMULATOR_API_KEY": "none"} if self._is_custom else {"CODEX_API_KEY": "none"}

    def arguments(self, prompt: str, *, resume: bool) -> list[str]:
        options = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return ["exec", *(["resume", "--last"] if resume else []), *options, prompt]

    def read_answer(self, stdout: str) -> str:
        events = [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]
        for event in events:
            if event["type"] in ("error", "turn.failed"):
                raise ScenarioError(json.dumps(event))
        items = [event["item"] for event in events if event["type"] == "item.completed"]
        return next((str(item["text"]) for item in reversed(items) if item["type"] == "agent_message"), "")

    @property
    def summary_prompt(self) -> str:
        return "CONTEXT CHECKPOINT COMPACTION" if self._is_custom else ""

    def compact(self, session: Session) -> None:
        """Lower the limit, so that the next process compacts by itself."""
        config = session.home / ".codex" / "config.toml"
        config.write_text(f"model_auto_compact_token_limit = 100\n{config.read_text()}")

    def shell_calls(self, *commands: str) -> list[Json]:
        arguments = [{"cmd": command} for command in commands]
        if self.model in _CODE_MODELS:
            calls = ", ".join(f"tools.exec_command({json.dumps(each)})" for each in arguments)
            code = f"for (const result of await Promise.all([{calls}])) text(result);"
            return [{"do": "call", "name": "exec", "args": code}]
        return [{"do": "call", "name": "exec_command", "args": each} for each in arguments]


CLIENTS = (
    Codex("built-in, gpt-5.5", "gpt-5.5", custom=False),
    Codex("built-in, gpt-6.1-sol", "gpt-6.1-sol", custom=False),
    Codex("custom provider, gpt-5.5", "gpt-5.5", custom=True),
)
