"""Find and read the recorded exchanges of a corpus directory."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conformance import read_anthropic, read_chat, read_gemini, read_responses
from conformance.reply_values import Read

__all__ = ["DIALECTS", "READERS", "STREAMS", "Exchange", "exchanges", "recorded"]

READERS = {
    "anthropic-messages": read_anthropic,
    "openai-chat": read_chat,
    "openai-responses": read_responses,
    "gemini": read_gemini,
}
DIALECTS = tuple(READERS)
STREAMS = ("sse", "json-array")


class Exchange:
    """One recorded request and its response."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.about: dict[str, Any] = json.loads((folder / "exchange.json").read_bytes())

    @property
    def name(self) -> str:
        """Dialect, provider and case."""
        return "/".join(self.folder.parts[-3:])

    @property
    def corpus(self) -> str:
        """The corpus directory of the exchange."""
        return str(self.folder.parents[2])

    @property
    def source(self) -> str:
        """The repository that the case comes from: its name up to `__`."""
        return self.folder.name.partition("__")[0]

    @property
    def judged(self) -> bool:
        """Whether the checks apply: one of the four dialects, answered with status 200."""
        return self.dialect in DIALECTS and self.about.get("status") == 200

    @property
    def dialect(self) -> str:
        """The wire format; the checks apply to those in `DIALECTS`."""
        return str(self.about["dialect"])

    @property
    def provider(self) -> str:
        """The directory of the provider; it may name a row, or none."""
        return str(self.about["provider"])

    @property
    def transport(self) -> str:
        """The form of the reply: `sse`, `json`, `json-array`, ..."""
        return str(self.about["transport"])

    @property
    def streamed(self) -> bool:
        """Whether the reply is a sequence of frames."""
        return self.transport in STREAMS

    @functools.cached_property
    def body(self) -> bytes:
        """The bytes of the reply."""
        return (self.folder / str(self.about["response_file"])).read_bytes()

    @functools.cached_property
    def expected(self) -> dict[str, Any]:
        """The oracle's result for the reply."""
        found: dict[str, Any] = json.loads((self.folder / "expected.json").read_bytes())
        return found

    @functools.cached_property
    def request(self) -> bytes | None:
        """The bytes of the request, if they were recorded."""
        path = self.folder / "request.json"
        return path.read_bytes() if path.exists() else None

    @functools.cached_property
    def read(self) -> Read:
        """The reply as read from its bytes."""
        found: Read = READERS[self.dialect].read(self.body, streamed=self.streamed)
        return found


def recorded(*roots: Path) -> Iterator[Exchange]:
    """Yield every exchange of the corpus directories, sorted by path within each."""
    for root in roots:
        for path in sorted(root.glob("*/*/*/exchange.json")):
            yield Exchange(path.parent)


def exchanges(*roots: Path) -> Iterator[Exchange]:
    """Yield the exchanges that the checks apply to."""
    return (exchange for exchange in recorded(*roots) if exchange.judged)
