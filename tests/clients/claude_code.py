"""Claude Code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clients.agents import AgentClient, Session
from clients.checks import ScenarioError

Json = Any
_BOUND_MODEL = "claude-sonnet-5-5"
"""A model whose thinking is valid only after the same messages."""


class ClaudeCode(AgentClient):
    """`claude --print`."""

    package = "@anthropic-ai/claude-code"
    pinned = "2.1.197"
    program = "claude"

    def expected_refusals(self, scenario: str) -> frozenset[str]:
        """Expect one refusal: `/compact` keeps a thinking block that is bound to the earlier conversation.

        The client repeats the request without it.
        """
        return frozenset({"ANT-THINK-08"} if (self.model, scenario) == (_BOUND_MODEL, "compaction") else ())

    def configure(self, home: Path, url: str) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "IS_SANDBOX": "1",
        }

    def arguments(self, prompt: str, *, resume: bool) -> list[str]:
        options = ["--print", "--model", self.model, "--output-format", "json", "--allowedTools", "Bash"]
        return [*options, *(["--continue"] if resume else []), "--", prompt]

    def read_answer(self, stdout: str) -> str:
        result = json.loads(stdout)
        if result["is_error"]:
            raise ScenarioError(f"the client reports {result['result']!r}")
        return str(result["result"])

    def shell_calls(self, *commands: str) -> list[Json]:
        return [
            {"do": "call", "name": "Bash", "args": {"command": command, "description": "Run a command"}}
            for command in commands
        ]

    @property
    def summary_prompt(self) -> str:
        return "Your task is to create a detailed summary"

    def compact(self, session: Session) -> None:
        session.ask("/compact", resume=True)


CLIENTS = (
    ClaudeCode("claude-opus-4-6", "claude-opus-4-6"),
    ClaudeCode(_BOUND_MODEL, _BOUND_MODEL),
)
