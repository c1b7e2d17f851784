"""The recorded exchanges, read from the corpus directories."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cached_property
from pathlib import Path
from typing import Any

__all__ = ["DIALECTS", "Exchange", "conversations"]

DIALECTS = ("anthropic-messages", "openai-chat", "openai-responses", "gemini")
_STREAMS = ("sse", "json-array")


class Exchange:
    """One recorded request and its response."""

    def __init__(self, root: Path, directory: Path) -> None:
        self.directory = directory
        self.group = "/".join((root.name, *directory.parts[-3:-1]))
        self.case = directory.name
        self.about: dict[str, Any] = json.loads((directory / "exchange.json").read_bytes())
        self.dialect = str(self.about["dialect"])
        self.provider = str(self.about["provider"])
        self.is_stream = self.about["transport"] in _STREAMS

    @cached_property
    def body(self) -> bytes:
        """The bytes of the response."""
        return (self.directory / str(self.about["response_file"])).read_bytes()

    @cached_property
    def request(self) -> dict[str, Any]:
        """The request; empty if the source kept none, or no JSON object."""
        path = self.directory / "request.json"
        try:
            request = json.loads(path.read_bytes()) if path.exists() else {}
        except ValueError:
            return {}
        return request if isinstance(request, dict) else {}

    @property
    def model(self) -> str:
        """The model of the request."""
        return str(self.request.get("model") or self.about.get("model") or "")


def conversations(roots: list[Path]) -> list[list[Exchange]]:
    """Return every status-200 exchange of the four dialects, grouped by conversation, in order of their names."""
    groups: dict[tuple[str, ...], list[Exchange]] = defaultdict(list)
    for root in roots:
        for dialect in DIALECTS:
            for path in sorted((root / dialect).glob("*/*/exchange.json")):
                exchange = Exchange(root, path.parent)
                if exchange.about.get("status") != 200:
                    continue
                named = exchange.about.get("conversation")
                key = (root.name, str(named)) if named else (exchange.group, exchange.case, "")
                groups[key].append(exchange)
    return list(groups.values())
