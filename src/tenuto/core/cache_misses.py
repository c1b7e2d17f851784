"""The use of the provider's prompt cache by a session: which replies read less than they could, and the cause.

The journal is append-only, so a request repeats the one before it, unless the configuration changed, a compaction or a
refused block replaced messages, or the stored prompt was forgotten meanwhile.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from tenuto.core import journal, jsonio

LIFETIMES = {"auto": 5 * 60_000, "5m": 5 * 60_000, "auto-1h": 60 * 60_000, "1h": 60 * 60_000}
"""The time in milliseconds for which a prompt is stored, by the value of `cache`."""
_MIN_TOKENS = 1024
"""Providers cache no shorter prompt; a smaller difference does not count."""

MissedPart: TypeAlias = Literal["model", "tools", "system", "messages", "parameters", "expired", "unknown"]
"""What changed since the request before. `expired`: nothing did, but the stored prompt was forgotten."""


class CacheMiss(msgspec.Struct, frozen=True):
    """A reply that read less from the cache than the request before it had stored."""

    seq: int
    """The sequence number of the reply."""
    part: MissedPart
    names: tuple[str, ...] = ()
    """The names of the tools or parameters that changed; for messages the reason."""
    tokens: int = 0
    """The tokens that were not read again."""
    provider_reason: str = ""
    """The reason that the provider reports, in its own word; empty without a diagnosis."""

    def __str__(self) -> str:
        names = f" ({', '.join(self.names)})" if self.names else ""
        cause = {"expired": "the stored prompt expired", "unknown": "the cause is unknown"}.get(self.part)
        cause = cause or f"{self.part} changed{names}"
        reported = f"; the provider reports {self.provider_reason}" if self.provider_reason else ""
        return f"{self.tokens:,} tokens were not read from the prompt cache: {cause}{reported}"


class _StoredPrompt(msgspec.Struct, frozen=True):
    configured: journal.Configured
    tokens: int
    time_ms: int
    cache: str


class CacheFold:
    """Follows what the provider has stored of the prompt. `miss` is that of the last reply, if it was one."""

    def __init__(self) -> None:
        self.miss: CacheMiss | None = None
        self.stored: _StoredPrompt | None = None
        """The prompt of the last reply that was stored; None: nothing is stored, as far as replies have told."""
        self._replaced: list[str] = []
        """Why messages before the last reply were replaced."""

    def apply(self, entry: journal.Entry, configured: journal.Configured | None, cache: str) -> None:
        """Add a reply, or the replacement of messages; `cache` is the value in the request, empty: no caching.

        Nothing has to be added until a reply reports tokens that were stored.
        """
        payload = entry.payload
        if isinstance(payload, journal.Compacted):
            self._replaced.append("compaction")
        elif isinstance(payload, journal.LossRecorded):
            self._replaced.append("a refused block was left out")
        elif isinstance(payload, journal.ReplyReceived):
            self.miss, stored, usage = None, self.stored, payload.usage
            if configured is None or usage is None or not cache:
                self.stored = None
                return
            read = usage.cache_read_tokens or 0
            if stored is not None and stored.tokens - read >= _MIN_TOKENS:
                part, names = self._cause(stored, configured, entry.time_ms)
                self.miss = CacheMiss(entry.seq, part, names, stored.tokens - read, payload.cache_miss_reason)
            self.stored = _StoredPrompt(configured, read + (usage.cache_write_tokens or 0), entry.time_ms, cache)
            self._replaced = []

    def _cause(
        self, stored: _StoredPrompt, configured: journal.Configured, time_ms: int
    ) -> tuple[MissedPart, tuple[str, ...]]:
        before = stored.configured
        if before.model != configured.model:
            return "model", (configured.model,)
        if before.tools != configured.tools:
            return "tools", _changed_tools(before.tools, configured.tools)
        if before.system != configured.system:
            return "system", ()
        if (before.output_mode, before.output_request) != (configured.output_mode, configured.output_request):
            return "parameters", ("output",)
        if time_ms - stored.time_ms > LIFETIMES.get(stored.cache, 0):
            return "expired", ()
        if self._replaced:
            return "messages", tuple(dict.fromkeys(self._replaced))
        if before.parameters != configured.parameters:
            old, new = (jsonio.members(text) if text else {} for text in (before.parameters, configured.parameters))
            return "parameters", tuple(sorted(name for name in {**old, **new} if old.get(name) != new.get(name)))
        return "unknown", ()


def _changed_tools(before: str, after: str) -> tuple[str, ...]:
    """Return the names of the tools that were added, removed or changed; `order` if only their order changed."""
    old, new = (
        {tool.get("name") or tool.get("kind"): tool for tool in jsonio.parse(text)} if text else {}
        for text in (before, after)
    )
    changed = tuple(str(name) for name in {**old, **new} if old.get(name) != new.get(name))
    return changed or ("order",)
